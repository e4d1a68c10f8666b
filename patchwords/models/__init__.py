"""Configuration and forward of each model, nothing else."""
