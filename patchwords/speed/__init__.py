"""What makes models fast or small in memory, from outside: the model files do not change."""
