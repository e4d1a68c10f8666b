"""Grids of studies, one for each kind of pictures."""
