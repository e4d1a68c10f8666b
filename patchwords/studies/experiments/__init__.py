"""One file for each of the paper's studies."""
