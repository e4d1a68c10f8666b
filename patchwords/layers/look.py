"""What the blocks look at: attention weights that are made when they are asked for, in pieces that fit the memory."""

from collections.abc import Iterator
from typing import NamedTuple

from torch import Tensor

from patchwords.layers.block import Layer
from patchwords.layers.tokens import Tokens

PIECE = 1 << 22  # weights at a time: 16 MiB, which a processor's cache likes better than more


class Look(NamedTuple):
    """A block and what came to it; from both follow its weights, so the fused forward need not keep them."""

    block: Layer
    tokens: Tokens

    @property
    def heads(self) -> int:
        return self.block.attention.heads

    def weights(self, heads: slice = slice(None), rows: slice = slice(None)) -> Tensor:
        """(batch, heads, rows, tokens), each row with the sum one."""
        return self.block.weights(self.tokens.x, heads, rows)

    def pieces(self, most: int = PIECE) -> Iterator[tuple[slice, slice, Tensor]]:
        """All weights, some heads or of one head some rows at a time: which they are, and the weights."""
        batch, tokens, _ = self.tokens.x.shape
        attention = self.block.attention
        q, k, _ = attention.split(self.block.norm1(self.tokens.x))  # once: for many heads it costs more than the rest
        heads = max(1, most // (batch * tokens * tokens))
        rows = tokens if heads > 1 else max(1, min(tokens, most // (batch * tokens)))
        for head in range(0, self.heads, heads):
            for row in range(0, tokens, rows):
                some, which = slice(head, min(head + heads, self.heads)), slice(row, min(row + rows, tokens))
                yield some, which, attention.compare(q, k, some, which)


class Gaze(NamedTuple):
    """How a model looked at pictures: every block's look, and what the output reads from each of the last tokens."""

    looks: tuple[Look, ...]
    reads: Tensor  # (batch, tokens), each row with the sum one
    cell: tuple[int, int]  # height and width of a patch, in pixels of the picture
