"""GELU and its backward: the plain twins of `gelu_triton`."""

from typing import Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from patchwords.speed.kernels.norm import EightRows, rounded, single

Form = Literal["tanh", "none"]  # as nn.GELU calls them: the approximation that JAX computes, or the exact one


class GeluGradients(NamedTuple):
    """Of the input; with the output made again, and the sum over rows, which is the gradient of the bias before it."""

    h: Tensor
    a: Tensor
    bias: Tensor


def gelu(h: Tensor, form: Form) -> Tensor:
    return F.gelu(single(h), approximate=form).to(h.dtype)


def linear_gelu(x: Tensor, weight: Tensor, bias: Tensor, form: Form) -> Tensor:
    """GELU(x weightᵀ + bias)."""
    return gelu(F.linear(x, weight, bias), form)


def gelu_backward(da: Tensor, h: Tensor, form: Form) -> GeluGradients:
    """`da` is not needed afterwards, and may be overwritten."""
    return _gradients(_slope(single(da), single(h), form), h, form)


def gelu_backward_both(da: Tensor, h: Tensor, form: Form) -> tuple[GeluGradients, EightRows]:
    """As `gelu_backward`, and the gradient of h in eight bits besides, with a scale for each row."""
    dh = _slope(single(da), single(h), form)
    return _gradients(dh, h, form), rounded(dh)


def gelu_eight(h: Tensor, form: Form) -> EightRows:
    """In eight bits, with a scale for each row."""
    return rounded(F.gelu(single(h), approximate=form))


def _gradients(dh: Tensor, h: Tensor, form: Form) -> GeluGradients:
    kept = dh.to(h.dtype)
    return GeluGradients(kept, gelu(h, form), single(kept).sum(0))


def _slope(da: Tensor, h: Tensor, form: Form) -> Tensor:
    return torch.ops.aten.gelu_backward(da, h, approximate=form)
