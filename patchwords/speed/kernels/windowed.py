"""Swin, eq. 4: attention within the windows of a map, forward and backward: the plain twins of `windowed_triton`.

q, k and v lie side by side in a map (batch, rows, cols, 3 · width) whose sides the window divides; `bias` is what is
added to the logits, (heads, tokens, tokens) for the tokens of a window. Softmax is made in single precision at least.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from patchwords.layers.window import APART
from patchwords.ops import windows
from patchwords.speed.kernels.norm import single

Grid = windows.Grid


class WindowGradients(NamedTuple):
    """Of the map of q, k and v; with its sum over all places, and of the bias."""

    qkv: Tensor
    sums: Tensor
    bias: Tensor


def taken(tokens: int, width: int) -> bool:
    """Whether the kernels take windows of so many tokens, whose logits they keep in registers, and heads so wide."""
    return tokens <= 64 and width in (16, 32, 64)


def windowed(qkv: Tensor, bias: Tensor, window: Grid, shift: Grid) -> Tensor:
    """The map (batch, rows, cols, width) of what each place takes from its window."""
    q, k, v = _split(qkv, bias.shape[0], window, shift)
    x = _weights(q, k, bias, window, shift).to(v.dtype) @ v
    return _joined(x, window, shift, (qkv.shape[1], qkv.shape[2]))


def windowed_backward(grad: Tensor, qkv: Tensor, bias: Tensor, window: Grid, shift: Grid) -> WindowGradients:
    q, k, v = _split(qkv, bias.shape[0], window, shift)
    (dx,) = _heads(windows.cut(grad, window, shift), 1, bias.shape[0])
    a = _weights(q, k, bias, window, shift)
    da = single(dx) @ single(v).mT
    logits = a * (da - (a * da).sum(-1, keepdim=True))
    scaled = (logits * q.shape[-1] ** -0.5).to(q.dtype)
    parts = scaled @ k, scaled.mT @ q, a.to(dx.dtype).mT @ dx
    dqkv = torch.cat([_joined(part, window, shift, (qkv.shape[1], qkv.shape[2])) for part in parts], -1)
    return WindowGradients(dqkv, single(dqkv).sum((0, 1, 2)), logits.sum((0, 1, 2)).to(bias.dtype))


def _split(qkv: Tensor, heads: int, window: Grid, shift: Grid) -> tuple[Tensor, ...]:
    """Three of (batch, down, across, heads, tokens, width / heads)."""
    return _heads(windows.cut(qkv, window, shift), 3, heads)


def _heads(x: Tensor, parts: int, heads: int) -> tuple[Tensor, ...]:
    return tuple(part.transpose(-2, -3) for part in x.unflatten(-1, (parts, heads, -1)).unbind(-3))


def _joined(x: Tensor, window: Grid, shift: Grid, grid: Grid) -> Tensor:
    return windows.join(x.transpose(-2, -3).flatten(-2), window, shift, grid)


def _weights(q: Tensor, k: Tensor, bias: Tensor, window: Grid, shift: Grid) -> Tensor:
    """A of eq. 6 with the bias; what only the shift has brought together is kept apart."""
    region = windows.regions((q.shape[1], q.shape[2]), window, shift, q.device)
    apart = (region[:, :, :, None] != region[:, :, None, :])[:, :, None]  # (down, across, 1, tokens, tokens)
    logits = single(q) @ single(k).mT * q.shape[-1] ** -0.5
    return (logits + single(bias) + APART * apart).softmax(-1)
