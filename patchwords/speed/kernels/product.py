"""Matrix products of rows, there, back to their gradient and to that of the matrix: the twins of `product_cublas`.

That of products in eight bits is in `eight`.
"""

import torch
from torch import Tensor, cat
from torch.nn import functional as F


def product(x: Tensor, matrix: Tensor, bias: Tensor | None) -> Tensor:
    """(rows, width) · matrixᵀ (out, width) + bias (out)."""
    return F.linear(x, matrix, bias)


def product_added(x: Tensor, matrix: Tensor, y: Tensor) -> Tensor:
    """y, to which (rows, width) · matrixᵀ (out, width) has been added where it lies."""
    return y.addmm_(x, matrix.T)


def product_gelu(x: Tensor, matrix: Tensor, bias: Tensor) -> Tensor:
    """GELU((rows, width) · matrixᵀ (out, width) + bias (out)), which on a GPU is the form with tanh."""
    return torch._addmm_activation(bias, x, matrix.T, use_gelu=True)


def product_qkv(x: Tensor, matrix: Tensor, bias: Tensor | None) -> Tensor:
    """(rows, width) to q, k and v side by side, where k and v lack their biases."""
    return F.linear(x, matrix, None if bias is None else bias_of_q(bias))


def bias_of_q(bias: Tensor) -> Tensor:
    """The bias of q, and zeros for k and v."""
    width = len(bias) // 3
    return cat([bias[:width], bias.new_zeros(2 * width)])


def product_back(dy: Tensor, matrix: Tensor) -> Tensor:
    """(rows, out) · matrix (out, width)."""
    return dy @ matrix


def product_sums(dy: Tensor, x: Tensor) -> Tensor:
    """(rows, out)ᵀ · (rows, width): the gradient of a matrix, in the precision of its master."""
    if dy.device.type == "cuda" and dy.dtype.itemsize < 4:
        return torch.mm(dy.T, x, out_dtype=torch.float32)
    return (dy.T @ x).to(torch.promote_types(dy.dtype, torch.float32))
