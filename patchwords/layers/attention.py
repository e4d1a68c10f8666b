"""Appendix A: multi-head self-attention, eq. 5-8."""

from typing import Literal

import torch
from torch import Tensor, nn

from patchwords.layers.initialise import dense, xavier_uniform_
from patchwords.ops.attention import attention, weights

Biases = Literal["qkv", "qv", "none"]


class Attention(nn.Module):
    """MSA(z) = [SA₁(z); …; SA_k(z)] U_msa, eq. 8."""

    def __init__(
        self, width: int, heads: int, biases: Biases, offsets: nn.Module, dropout: float, weight_dropout: float
    ):
        super().__init__()
        self.heads = heads
        self.weight_dropout = weight_dropout
        self.qkv = projection(width, biases)
        self.offsets = offsets
        self.out = dense(width, width)
        self.drop = nn.Dropout(dropout)

    def split(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Eq. 5, [q, k, v] = z U_qkv for all heads: three of (batch, …, heads, tokens, width / heads)."""
        q, k, v = (part.transpose(-2, -3) for part in self.qkv(x).unflatten(-1, (3, self.heads, -1)).unbind(-3))
        return q, k, v

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.split(x)
        dropout = self.weight_dropout if self.training else 0.0
        x = attention(q, k, v, self.offsets(q), dropout)  # eq. 6 and 7
        return self.drop(self.out(x.transpose(-2, -3).flatten(-2)))  # eq. 8

    def weights(self, x: Tensor, heads: slice = slice(None), rows: slice = slice(None)) -> Tensor:
        """A of eq. 6 for these heads and queries, (batch, heads, rows, tokens), whatever kernel the forward uses."""
        q, k, _ = self.split(x)
        return self.compare(q, k, heads, rows)

    def compare(self, q: Tensor, k: Tensor, heads: slice, rows: slice) -> Tensor:
        """Eq. 6 for some of the heads that q and k have, and the queries of these rows."""
        return weights(q[..., heads, rows, :], k[..., heads, :, :], self.offsets(q, heads, rows))


class NoOffsets(nn.Module):
    """Attention by content alone."""

    def forward(self, q: Tensor, heads: slice = slice(None), rows: slice = slice(None)) -> None:
        return None


class KeylessProjection(nn.Module):
    """U_qkv with biases for q and v alone, as in BEiT: one for k would add the same to all logits of a query."""

    def __init__(self, width: int):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(3 * width, width))
        self.q_bias = nn.Parameter(torch.zeros(width))
        self.v_bias = nn.Parameter(torch.zeros(width))
        xavier_uniform_(self.weight, parts=3)

    def forward(self, x: Tensor) -> Tensor:
        bias = torch.cat([self.q_bias, torch.zeros_like(self.q_bias), self.v_bias])
        return nn.functional.linear(x, self.weight, bias)


def projection(width: int, biases: Biases) -> nn.Module:
    """U_qkv of eq. 5, three matrices in one."""
    if biases == "qv":
        return KeylessProjection(width)
    return dense(width, 3 * width, parts=3, bias="none" if biases == "none" else "zeros")
