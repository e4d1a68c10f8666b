"""A layer norm that stands alone, for training: rows stay in the precision of the stream, its parameters in single."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from patchwords.speed.kernels.norm import Normed
from patchwords.speed.kernels.table import Kernels


class _Norm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, weight: Tensor, bias: Tensor, epsilon: float, kernels: Kernels) -> Tensor:
        found = kernels.norm(rows, weight, bias, epsilon)
        ctx.kernels = kernels
        ctx.save_for_backward(rows, found.mean, found.inverse, weight)
        return found.y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, ...]:
        rows, mean, inverse, weight = ctx.saved_tensors
        normed = Normed(rows, rows, mean, inverse)
        found = ctx.kernels.norm_backward(dy.contiguous(), normed, weight, None)
        return found.x, found.weight, found.bias, None, None


_made: Callable[..., Tensor] = _Norm.apply


def fused_norm(norm: nn.LayerNorm, kernels: Kernels, dtype: torch.dtype) -> Callable[[Tensor], Tensor]:
    """The forward of a norm over the last axis of (…, width)."""

    def forward(x: Tensor) -> Tensor:
        rows = x.to(dtype).reshape(-1, x.shape[-1])
        return _made(rows, norm.weight, norm.bias, norm.eps, kernels).view(x.shape)

    return forward
