"""How fast it is, beside whoever else is installed: the same weights, the same pictures, in turns."""
