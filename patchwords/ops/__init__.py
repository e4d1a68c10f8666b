"""Tensor in, tensor out, no state."""
