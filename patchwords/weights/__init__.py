"""Checkpoints: names in tables, strict both ways; what must change to fit is changed in `adapt`."""
