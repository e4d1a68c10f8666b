"""One table a format."""
