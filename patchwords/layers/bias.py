"""Learned logits for the offset between two patches, one for each head: Swin's eq. 4, and BEiT with a class token."""

import torch
from torch import Tensor, nn

from patchwords.errors import UsageError
from patchwords.layers.placing import expect
from patchwords.layers.tokens import Grid, Tokens
from patchwords.ops.offsets import sequence_entries, sequence_offsets


class Bias(nn.Module):
    """B of softmax(q kᵀ / √Dh + B): of the head and the offset, whatever the query says."""

    index: Tensor

    def __init__(self, grid: Grid, special: int, heads: int):
        super().__init__()
        self.table = nn.Parameter(torch.zeros(sequence_entries(grid, special), heads))
        self.register_buffer("index", sequence_offsets(grid, special).int(), persistent=False)

    def forward(self, q: Tensor, heads: slice = slice(None), rows: slice = slice(None)) -> Tensor:
        """What is added to the logits of these heads for the queries of these rows: (1, heads, rows, keys)."""
        if q.shape[-2] != self.index.shape[0]:
            raise UsageError(
                f"{q.shape[-2]} tokens came, the biases know {self.index.shape[0]}: adapt the model to this size; "
                "a part of the patches alone has no place in them"
            )
        return self.table[:, heads][self.index[rows]].permute(2, 0, 1).contiguous()[None]


class SharedBias(nn.Module):
    """The one table of all blocks, kept where the encoder keeps its positions; it lets only its grid pass."""

    def __init__(self, bias: nn.Module, grid: Grid):
        super().__init__()
        self.grid = grid
        self.bias = bias

    def forward(self, tokens: Tokens, layer: int) -> Tokens:
        expect(tokens.grid, self.grid)
        return tokens


class BorrowedBias(nn.Module):
    """A block's use of the table that all share."""

    def __init__(self, bias: nn.Module):
        super().__init__()
        self.lender = (bias,)  # in a tuple, so that the table is not this module's too: it is saved and moved once

    def forward(self, q: Tensor, heads: slice = slice(None), rows: slice = slice(None)) -> Tensor:
        added: Tensor = self.lender[0](q, heads, rows)
        return added
