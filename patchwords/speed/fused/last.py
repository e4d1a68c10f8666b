"""The last layer of a ViT that is read at its first tokens alone, for training: only they ask and have an MLP.

The logits are those of the whole layer; a sixth of its products is left.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from patchwords.layers.block import Block
from patchwords.speed.fused.block import (
    How,
    Keeps,
    Learned,
    Open,
    begun,
    ended,
    ended_back,
    flat,
    keep,
    parameters,
    waiting,
    woken,
    working,
)
from patchwords.speed.fused.parts import form
from patchwords.speed.fused.products import Same
from patchwords.speed.kernels.norm import single
from patchwords.speed.kernels.table import Kernels
from patchwords.speed.recompute import Again


class _Last(torch.autograd.Function):
    """Rows of sequences of a `shape` to their first tokens (batch, front, width), behind the layer."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, branch: Tensor | None, left: Tensor | None, shape: torch.Size, front: int, heads: int,
        how: How, keeps: Keeps, *learned: Any,
    ) -> Tensor:  # fmt: skip
        k, p, width = how.kernels, working(Learned(*learned), how), shape[2]
        first, _ = begun(Open(x, branch, left), how.products, p, how)
        asks = first.y.view(shape)[:, :front].reshape(-1, width).contiguous()
        q = k.product(asks, p.qkv[:width], _some(p.qkv_bias, slice(width))).view(-1, front, width)
        kv = k.product(first.y, p.qkv[width:], _some(p.qkv_bias, slice(width, None))).view(*shape[:2], -1)
        out, total = k.few(q, kv, heads)
        read = first.total.view(shape)[:, :front].reshape(-1, width).contiguous()
        end = ended(read, k.product(out.view(-1, width), p.out, p.out_bias), keeps, p, how)
        ctx.how, ctx.keeps, ctx.shape, ctx.front, ctx.heads = how, keeps, shape, front, heads
        ctx.save_for_backward(*waiting(first, how), asks, q, kv, out, total, *waiting(end.second, how), end.h, *p)
        return k.add(*end.rows).view(-1, front, width)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        how, k, shape, front = ctx.how, ctx.how.kernels, ctx.shape, ctx.front
        x, y1, mean1, inverse1, asks, q, kv, out, total, between, y2, mean2, inverse2, h, *rest = ctx.saved_tensors
        p, width = Learned(*rest), shape[2]
        rows = grad.reshape(-1, width).contiguous()
        end = ended_back(rows, (between, y2, mean2, inverse2), h, ctx.keeps, p, how)
        dout = k.product_back(end.branch, p.out).view(q.shape)
        back = k.few_backward(dout, q, kv, out, total, ctx.heads)
        dkv, dq = back.kv.flatten(0, 1), back.q.flatten(0, 1)
        dy = k.product_back(dkv, p.qkv[width:]).view(shape)
        dy[:, :front] += k.product_back(dq, p.qkv[:width]).view(grad.shape)
        normed = woken((x, y1, mean1, inverse1), p.norm1, p.shift1, how)
        first = k.norm_backward(dy.view(-1, width), normed, p.norm1, None)
        first.x.view(shape)[:, :front] += end.x.view(grad.shape)
        found = Learned(
            norm1=first.weight,
            shift1=first.bias,
            qkv=torch.cat([k.product_sums(dq, asks), k.product_sums(dkv, normed.y)]),
            qkv_bias=None if p.qkv_bias is None else _sums(dq, dout.flatten(0, 1)),
            out=k.product_sums(end.branch, out.view(-1, width)),
            **end.learned,
        )
        return first.x, None, None, None, None, None, None, None, *found


_made: Callable[..., Tensor] = _Last.apply


def last(
    block: Block, front: int, kernels: Kernels, dtype: torch.dtype, again: Again | None
) -> Callable[[Open], Tensor]:
    """The forward from (batch, tokens, width) to (batch, front, width)."""
    how = How(kernels, dtype, Same(kernels, dtype), block.norm1.eps, form(block.mlp), again=again)
    heads, drop = block.attention.heads, block.drop

    def forward(rows: Open) -> Tensor:
        x = rows.stream.to(dtype)
        keeps = keep(drop, x), keep(drop, x)
        learned = parameters((block.norm1, block.norm2), block.attention, block.mlp)
        with torch.autocast(x.device.type, enabled=False):
            return _made(*flat(rows._replace(stream=x)), x.shape, front, heads, how, keeps, *learned)

    return forward


def _some(bias: Tensor | None, which: slice) -> Tensor | None:
    return None if bias is None else bias[which]


def _sums(dq: Tensor, dout: Tensor) -> Tensor:
    """The gradient of the biases of q, k and v: a query's weights sum to one, which leaves nothing for those of k."""
    of_q, of_v = single(dq).sum(0), single(dout).sum(0)
    return torch.cat([of_q, torch.zeros_like(of_q), of_v])
