"""Eq. 6 and 7 for short sequences, forward and backward: the plain twins of `short_triton` and `short_gluon`.

q, k and v lie side by side, (batch, tokens, 3 · width), as one matrix has made them; so do their gradients. `total` is
the logarithm of the sum that softmax divides by, (batch, heads, tokens). Sums are in single precision at least.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from patchwords.speed.kernels.norm import LARGEST, single

LONG = 208  # tokens: of more, programs that share a multiprocessor have no room for a block that is loaded ahead
LONELY = 128  # heads of all pictures together: no more than a large GPU has multiprocessors


class Attended(NamedTuple):
    """The joined heads (batch, tokens, width), and what the backward needs besides them."""

    out: Tensor
    total: Tensor


class ShortGradients(NamedTuple):
    """Of q, k and v; with their sum over all rows."""

    qkv: Tensor
    sums: Tensor


def taken(tokens: int, width: int) -> bool:
    """Whether the kernels take so many tokens, whose keys they keep at hand, and heads so wide."""
    return tokens <= 256 and width == 64


def to_be_filled(qkv: Tensor, heads: int) -> Attended:
    """What a kernel writes."""
    batch, tokens, across = qkv.shape
    total = torch.empty(batch, heads, tokens, dtype=torch.float32, device=qkv.device)
    return Attended(qkv.new_empty(batch, tokens, across // 3), total)


def to_be_filled_eight(qkv: Tensor) -> Tensor:
    """What a kernel writes in eight bits: rows."""
    batch, tokens, across = qkv.shape
    return torch.empty(batch * tokens, across // 3, dtype=torch.float8_e4m3fn, device=qkv.device)


def short(qkv: Tensor, heads: int) -> Attended:
    q, k, v = apart(qkv, 3, heads)
    logits = scaled(q, k)
    x = logits.softmax(-1).to(v.dtype) @ v
    return Attended(joined(x), logits.logsumexp(-1))


def short_eight(qkv: Tensor, heads: int, factors: Tensor) -> Tensor:
    """The joined heads as rows in eight bits (e4m3), each column times its factor; what is too large is cut off."""
    rows = single(short(qkv, heads).out) * factors
    return rows.clamp(-LARGEST, LARGEST).to(torch.float8_e4m3fn).flatten(0, 1)


def short_backward(grad: Tensor, qkv: Tensor, out: Tensor, total: Tensor, heads: int) -> ShortGradients:
    """From the gradient of the output, and what the forward has given."""
    q, k, v = apart(qkv, 3, heads)
    (dx,), (x,) = apart(grad, 1, heads), apart(out, 1, heads)
    a = (scaled(q, k) - total[..., None]).exp()
    da = single(dx) @ single(v).mT
    logits = a * (da - (single(x) * single(dx)).sum(-1, keepdim=True)) * q.shape[-1] ** -0.5
    dq, dk = logits.to(q.dtype) @ k, logits.to(q.dtype).mT @ q
    dqkv = torch.cat([joined(part) for part in (dq, dk, a.to(dx.dtype).mT @ dx)], -1)
    return ShortGradients(dqkv, single(dqkv).sum((0, 1)))


def scaled(q: Tensor, k: Tensor) -> Tensor:
    """The logits."""
    return single(q) @ single(k).mT * q.shape[-1] ** -0.5


def apart(x: Tensor, parts: int, heads: int) -> tuple[Tensor, ...]:
    """Each part as (batch, heads, tokens, width / heads)."""
    return x.unflatten(-1, (parts, heads, -1)).permute(2, 0, 3, 1, 4).unbind(0)


def joined(x: Tensor) -> Tensor:
    """The heads side by side again."""
    return x.transpose(1, 2).flatten(2)
