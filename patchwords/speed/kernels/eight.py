"""Matrix products of rows in eight bits: the GPU's, and its plain twin; and a matrix the other way round for them."""

import torch
from torch import Tensor

from patchwords.speed.kernels.norm import EightRows, rounded


def product(x: Tensor, scale: Tensor, matrix: Tensor, weight_scale: Tensor, bias: Tensor | None) -> Tensor:
    """(rows, width) · matrixᵀ (out, width), rows and outputs with their scales (rows, 1) and (1, out)."""
    y = (x.float() @ matrix.float().T) * scale * weight_scale
    return (y if bias is None else y + bias.float()).to(torch.bfloat16)


def product_added(x: Tensor, scale: Tensor, matrix: Tensor, weight_scale: Tensor, y: Tensor) -> Tensor | None:
    """Adds such a product to y, where it lies; what is left to be added, where nobody has done it."""
    y += product(x, scale, matrix, weight_scale, None)
    return None


def scaled_product(x: Tensor, scale: Tensor, matrix: Tensor, weight_scale: Tensor, bias: Tensor | None) -> Tensor:
    return torch._scaled_mm(x, matrix.T, scale, weight_scale, bias=bias, out_dtype=torch.bfloat16, use_fast_accum=True)


def turned(matrix: Tensor) -> EightRows:
    """The transpose in eight bits, with a scale for each of its rows: the plain twin of `eight_triton`."""
    return rounded(matrix.T)
