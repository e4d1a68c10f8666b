"""Appendix D.6, Axial-ViT: attention along the rows, then along the columns, each followed by an MLP."""

from collections.abc import Iterator

from torch import Tensor

from patchwords.errors import UsageError
from patchwords.layers.block import Layer
from patchwords.layers.encoder import Encoder
from patchwords.layers.look import Look
from patchwords.layers.tokens import Tokens
from patchwords.layers.unit import Unit


class AxialBlock(Unit):
    """Two layers of eq. 2 and 3: in the first a patch sees its row, in the second its column."""

    def __init__(self, along_rows: Layer, along_cols: Layer):
        super().__init__()
        self.along_rows = along_rows
        self.along_cols = along_cols

    def forward(self, x: Tensor) -> Tensor:
        """(batch, rows, cols, width) to the same."""
        x = self.along_rows(x)
        return self.along_cols(x.transpose(1, 2)).transpose(1, 2)


class AxialEncoder(Encoder):
    """The encoder of patches alone: a special token has neither row nor column."""

    def step(self, tokens: Tokens, layer: int) -> Tokens:
        tokens = self.position(tokens, layer)
        return tokens.replace(self.blocks[layer](tokens.x.unflatten(1, tokens.grid)).flatten(1, 2))

    def looks(self, tokens: Tokens) -> Iterator[Look]:
        raise UsageError("axial attention has no weights between all tokens: a patch sees its row, then its column")
