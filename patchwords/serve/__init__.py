"""Answers about single pictures: in Python and notebooks, for the command line, and for a service."""
