"""Passes over memory that torch makes in several, each twice: `NAME` to be read, and `NAME_triton` to be fast."""
