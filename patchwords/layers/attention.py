"""Appendix A: multi-head self-attention, eq. 5-8."""

from typing import Literal

from torch import Tensor, nn

from patchwords.layers.initialise import dense
from patchwords.ops.attention import attention, weights

Biases = Literal["qkv", "none"]


class Attention(nn.Module):
    """MSA(z) = [SA₁(z); …; SA_k(z)] U_msa, eq. 8."""

    def __init__(
        self, width: int, heads: int, biases: Biases, offsets: nn.Module, dropout: float, weight_dropout: float
    ):
        super().__init__()
        self.heads = heads
        self.weight_dropout = weight_dropout
        self.qkv = dense(width, 3 * width, parts=3, bias="none" if biases == "none" else "zeros")
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
        return self.compare(q[..., heads, :, :], k[..., heads, :, :], rows)

    def compare(self, q: Tensor, k: Tensor, rows: slice) -> Tensor:
        """Eq. 6 for the queries of these rows, of all heads that q and k have."""
        return weights(q[..., rows, :], k, self.offsets(q, rows))


class NoOffsets(nn.Module):
    """Attention by content alone."""

    def forward(self, q: Tensor, rows: slice = slice(None)) -> None:
        return None
