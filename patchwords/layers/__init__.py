"""The paper's modules, one idea a file."""
