"""How good a model is, told from its outputs."""
