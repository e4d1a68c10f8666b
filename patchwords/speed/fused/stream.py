"""Eq. 2 to 4 for inference: one stream that every branch is added to in place, by the matrix product that ends it.

The biases of these products are not added to the stream but summed up beside it: a norm adds what has come together
up to there. In the last layer only the tokens that the pool looks at ask and are answered.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from patchwords.layers.block import Block
from patchwords.layers.tokens import Tokens
from patchwords.layers.window import WindowBlock
from patchwords.ops.attention import attention
from patchwords.speed.fused.attend import apart, joined, split
from patchwords.speed.fused.parts import form
from patchwords.speed.kernels.gelu import Form
from patchwords.speed.kernels.short import LONELY, LONG, taken
from patchwords.speed.kernels.table import Kernels


@dataclass(frozen=True)
class Weights:
    """One layer: norms in single precision, matrices as they work; what the stream lacks where each norm stands."""

    norm1: tuple[Tensor, Tensor]
    norm2: tuple[Tensor, Tensor]
    qkv: tuple[Tensor, Tensor | None]
    out: Tensor
    fc1: tuple[Tensor, Tensor]
    fc2: Tensor
    lacks1: Tensor
    lacks2: Tensor


class Stream:
    """The encoder's blocks and its last norm, with matrices in `dtype`; `lacks` is what the stream lacks before them.

    It takes a sequence that nobody else needs, and gives the tokens that the pool looks at: the first `front`, or all.
    """

    def __init__(
        self,
        blocks: Sequence[Block],
        norm: nn.Module,
        front: int | None,
        kernels: Kernels,
        dtype: torch.dtype,
        lacks: Tensor | None = None,
    ):
        self.kernels, self.front, self.dtype = kernels, front, dtype
        self.heads = blocks[0].attention.heads
        self.epsilon = blocks[0].norm1.eps
        self.form: Form = form(blocks[0].mlp)
        begin = torch.zeros_like(blocks[0].norm1.weight) if lacks is None else lacks
        self.layers, self.lacks = layers(blocks, dtype, begin)
        self.norm = norm

    def __call__(self, tokens: Tokens) -> Tokens:
        batch, length, width = tokens.x.shape
        x = tokens.x.to(self.dtype).reshape(-1, width)
        for layer in self.layers[: -1 if self.front else None]:
            y = self.kernels.norm(x, *layer.norm1, self.epsilon, layer.lacks1).y
            qkv = self.kernels.product(y, *layer.qkv).view(batch, length, -1)
            self.kernels.product_added(attended(qkv, self.heads, self.kernels), layer.out, x)
            self._mlp(x, layer)
        if self.front:
            x = self._last(x.view(batch, length, width), self.layers[-1], self.front)
        x = x.float() + self.lacks
        return tokens.replace(self.norm(x).view(batch, -1, width))

    def _last(self, x: Tensor, layer: Weights, front: int) -> Tensor:
        """The last layer for the first tokens: they ask all others."""
        batch, length, width = x.shape
        weight, bias = layer.qkv
        y = self.kernels.norm(x.view(-1, width), *layer.norm1, self.epsilon, layer.lacks1).y
        kv = self.kernels.product(y, weight[width:], None if bias is None else bias[width:])
        asks = y.view(x.shape)[:, :front]
        q = F.linear(asks, weight[:width], None if bias is None else bias[:width])
        k, v = (apart(part, self.heads) for part in kv.view(batch, length, 2 * width).chunk(2, -1))
        x = x[:, :front].reshape(-1, width).contiguous()
        self.kernels.product_added(joined(attention(apart(q, self.heads), k, v)).flatten(0, 1), layer.out, x)
        self._mlp(x, layer)
        return x

    def _mlp(self, x: Tensor, layer: Weights) -> None:
        y = self.kernels.norm(x, *layer.norm2, self.epsilon, layer.lacks2).y
        self.kernels.product_added(self.kernels.linear_gelu(y, *layer.fc1, self.form), layer.fc2, x)


def attended(qkv: Tensor, heads: int, kernels: Kernels) -> Tensor:
    """Eq. 6 and 7 as rows (batch · tokens, width): our own kernel for short and for few sequences, or the library's."""
    if by_own_kernel(qkv, heads):
        return kernels.short(qkv, heads).out.flatten(0, 1)
    return joined(attention(*split(qkv, heads))).flatten(0, 1)


def by_own_kernel(qkv: Tensor, heads: int) -> bool:
    """Whether ours takes these sequences, and is the faster one."""
    batch, tokens, width = qkv.shape
    return (tokens <= LONG or batch * heads <= LONELY) and taken(tokens, width // (3 * heads))


def layers(blocks: Sequence[Block | WindowBlock], dtype: torch.dtype, lacks: Tensor) -> tuple[list[Weights], Tensor]:
    """The weights of every block, and what the stream lacks after them; `lacks` is what it lacks before."""
    found = []
    for block in blocks:
        qkv, out, mlp = block.attention.qkv, block.attention.out, block.mlp
        assert isinstance(qkv, nn.Linear)
        between = lacks + out.bias
        bias = None if qkv.bias is None else qkv.bias.to(dtype)
        found.append(
            Weights(
                norm1=(block.norm1.weight, block.norm1.bias),
                norm2=(block.norm2.weight, block.norm2.bias),
                qkv=(qkv.weight.to(dtype), bias),
                out=out.weight.to(dtype),
                fc1=(mlp.fc1.weight.to(dtype), mlp.fc1.bias.to(dtype)),
                fc2=mlp.fc2.weight.to(dtype),
                lacks1=lacks,
                lacks2=between,
            )
        )
        lacks = between + mlp.fc2.bias
    return found, lacks
