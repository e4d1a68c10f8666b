"""Matrix products of rows, there and back to their gradient: the plain twins of `product_cublas`."""

from torch import Tensor
from torch.nn import functional as F


def product(x: Tensor, matrix: Tensor, bias: Tensor | None) -> Tensor:
    """(rows, width) · matrixᵀ (out, width) + bias (out)."""
    return F.linear(x, matrix, bias)


def product_back(dy: Tensor, matrix: Tensor) -> Tensor:
    """(rows, out) · matrix (out, width)."""
    return dy @ matrix
