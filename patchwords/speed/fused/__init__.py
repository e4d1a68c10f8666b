"""Blocks whose forward and backward are written out by hand, over the kernels of a table."""
