"""GELU and its backward: the plain twins of `gelu_triton`.

They take the hidden layer h (rows, width) without its bias (width), and add it in single precision at least: a matrix
product that adds none is faster, and h is read here anyway. None is a bias that h has already.
"""

from typing import Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from patchwords.speed.kernels.norm import EightRows, rounded, single

Form = Literal["tanh", "none"]  # as nn.GELU calls them: the approximation that JAX computes, or the exact one


class GeluGradients(NamedTuple):
    """Of h; with the output made again, and the sum over rows, which is the gradient of the bias."""

    h: Tensor
    a: Tensor
    bias: Tensor


def gelu(h: Tensor, bias: Tensor | None, form: Form) -> Tensor:
    """GELU(h + bias)."""
    return F.gelu(_biased(h, bias), approximate=form).to(h.dtype)


def linear_gelu(x: Tensor, weight: Tensor, bias: Tensor, form: Form) -> Tensor:
    """GELU(x weightᵀ + bias)."""
    return gelu(F.linear(x, weight, bias), None, form)


def gelu_backward(da: Tensor, h: Tensor, bias: Tensor | None, form: Form) -> GeluGradients:
    """`da` is not needed afterwards, and may be overwritten."""
    total = _biased(h, bias)
    return _gradients(_slope(da, total, form), total, h.dtype, form)


def gelu_backward_both(da: Tensor, h: Tensor, bias: Tensor | None, form: Form) -> tuple[GeluGradients, EightRows]:
    """As `gelu_backward`, and the gradient of h in eight bits besides, with a scale for each row."""
    total = _biased(h, bias)
    dh = _slope(da, total, form)
    return _gradients(dh, total, h.dtype, form), rounded(dh)


def gelu_eight(h: Tensor, bias: Tensor | None, form: Form) -> EightRows:
    """As `gelu`, in eight bits, with a scale for each row."""
    return rounded(F.gelu(_biased(h, bias), approximate=form))


def _biased(h: Tensor, bias: Tensor | None) -> Tensor:
    return single(h) if bias is None else single(h) + single(bias)


def _gradients(dh: Tensor, total: Tensor, dtype: torch.dtype, form: Form) -> GeluGradients:
    kept = dh.to(dtype)
    return GeluGradients(kept, F.gelu(total, approximate=form).to(dtype), single(kept).sum(0))


def _slope(da: Tensor, total: Tensor, form: Form) -> Tensor:
    """The gradient of the sum with the bias, and so of h."""
    return torch.ops.aten.gelu_backward(single(da), total, approximate=form)
