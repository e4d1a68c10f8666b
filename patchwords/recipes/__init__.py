"""Recipes as TOML files, one for each row of the paper's tables and of the later papers."""
