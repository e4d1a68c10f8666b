"""Fine-tuning as the paper and VTAB measure it: a rate is chosen, then several seeds are trained and judged once."""
