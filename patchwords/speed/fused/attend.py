"""Eq. 6 and 7, from q, k and v side by side to the joined heads, forward and backward."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

import torch
from torch import Tensor

from patchwords.ops.attention import weights
from patchwords.speed.kernels.norm import single
from patchwords.speed.kernels.short import LONG, taken
from patchwords.speed.kernels.table import Kernels

Kept = tuple[Tensor, ...]


class Back(NamedTuple):
    """The gradient of qkv, like qkv, and its sum over all rows; the gradients of what is learned."""

    qkv: Tensor
    sums: Tensor
    learned: Kept = ()


class Attend(Protocol):
    """From qkv (batch, …, 3 · width) to (batch, …, width); `learned` is what it adds to its logits, if anything.

    Where k and v may be `lacking` their biases: one of k moves all logits of a query alike, and one of v comes out as
    it went in, since weights sum to one.
    """

    lacking: ClassVar[bool]

    def forward(self, qkv: Tensor, *learned: Tensor) -> tuple[Tensor, Kept]:
        """The output, and what the backward needs besides it and qkv."""

    def backward(self, grad: Tensor, qkv: Tensor, out: Tensor, kept: Kept, *learned: Tensor) -> Back:
        """The gradients of qkv and of what is learned, from that of the output."""


@dataclass(frozen=True)
class Plain:
    """The equations, with all weights written down: for any device, and to compare with."""

    heads: int
    lacking: ClassVar[bool] = True

    def forward(self, qkv: Tensor, *learned: Tensor) -> tuple[Tensor, Kept]:
        q, k, v = split(qkv, self.heads)
        return joined(weights(q, k).to(v.dtype) @ v), ()

    def backward(self, grad: Tensor, qkv: Tensor, out: Tensor, kept: Kept, *learned: Tensor) -> Back:
        q, k, v = split(qkv, self.heads)
        a, scale = weights(q, k), q.shape[-1] ** -0.5
        do = apart(grad, self.heads)
        dv = a.mT.to(do.dtype) @ do
        da = (do @ v.mT).to(a.dtype)
        logits = (a * (da - (a * da).sum(-1, keepdim=True)) * scale).to(q.dtype)
        packed = torch.cat([joined(logits @ k), joined(logits.mT @ q), joined(dv)], -1)
        return Back(packed, single(packed).flatten(0, -2).sum(0))


@dataclass(frozen=True)
class Library:
    """A kernel of torch's: cuDNN's is the fastest for pictures of the usual size, flash is there where that is not."""

    heads: int
    forwards: Callable[..., Any]
    backwards: Callable[..., Any]
    pack: Callable[..., tuple[Tensor, Tensor]]
    lacking: ClassVar[bool] = True

    def forward(self, qkv: Tensor, *learned: Tensor) -> tuple[Tensor, Kept]:
        q, k, v = split(qkv, self.heads)
        out, total, seed, offset = self.forwards(q, k, v)
        return joined(out), (total, seed, offset)

    def backward(self, grad: Tensor, qkv: Tensor, out: Tensor, kept: Kept, *learned: Tensor) -> Back:
        q, k, v = split(qkv, self.heads)
        found = self.backwards(apart(grad, self.heads), q, k, v, apart(out, self.heads), *kept)
        packed, sums = self.pack(*(joined(each).flatten(0, -2) for each in found))
        return Back(packed.view(qkv.shape), sums)


@dataclass(frozen=True)
class Short:
    """Kernels of our own for as many tokens as the usual pictures have, at `most`; more of them go `otherwise`.

    With more than `LONG` tokens the library's forward is the faster one. What it keeps is the same: the logarithm of
    the sum that softmax divides by.
    """

    heads: int
    kernels: Kernels
    otherwise: Library
    most: int
    lacking: ClassVar[bool] = True

    def forward(self, qkv: Tensor, *learned: Tensor) -> tuple[Tensor, Kept]:
        if not self._takes(qkv):
            return self.otherwise.forward(qkv, *learned)
        if qkv.shape[-2] <= LONG:
            out, total = self.kernels.short(qkv.flatten(0, -3), self.heads)
            return out, (total,)
        out, (total, *_) = self.otherwise.forward(qkv, *learned)
        return out, (total.flatten(2),)

    def backward(self, grad: Tensor, qkv: Tensor, out: Tensor, kept: Kept, *learned: Tensor) -> Back:
        if not self._takes(qkv):
            return self.otherwise.backward(grad, qkv, out, kept, *learned)
        flat = (each.flatten(0, -3) for each in (grad, qkv, out))
        return Back(*self.kernels.short_backward(*flat, *kept, self.heads))

    def _takes(self, qkv: Tensor) -> bool:
        return qkv.shape[-2] <= self.most and taken(qkv.shape[-2], qkv.shape[-1] // (3 * self.heads))


def cudnn_forward(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    found = torch.ops.aten._scaled_dot_product_cudnn_attention(q, k, v, None, True)
    return found[0], found[1], found[6], found[7]


def cudnn_backward(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, total: Tensor, seed: Tensor, offset: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    return torch.ops.aten._scaled_dot_product_cudnn_attention_backward(
        grad, q, k, v, out, total, seed, offset, None, None, None, q.shape[2], k.shape[2], 0.0, False
    )


def flash_forward(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    found = torch.ops.aten._scaled_dot_product_flash_attention(q, k, v)
    return found[0], found[1], found[6], found[7]


def flash_backward(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, total: Tensor, seed: Tensor, offset: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    return torch.ops.aten._scaled_dot_product_flash_attention_backward(
        grad, q, k, v, out, total, None, None, q.shape[2], k.shape[2], 0.0, False, seed, offset
    )


def split(qkv: Tensor, heads: int) -> tuple[Tensor, Tensor, Tensor]:
    """q, k and v as (batch, heads, tokens, width / heads), views of what one matrix made."""
    q, k, v = (apart(part, heads) for part in qkv.chunk(3, -1))
    return q, k, v


def apart(x: Tensor, heads: int) -> Tensor:
    """(batch, …, tokens, width) as (batch, heads, tokens, width / heads), without a copy."""
    return x.flatten(0, -3).unflatten(-1, (heads, -1)).transpose(1, 2)


def joined(x: Tensor) -> Tensor:
    """The inverse of `apart`; no copy either where the tokens lie in order."""
    return x.transpose(1, 2).flatten(2)
