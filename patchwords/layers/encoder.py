"""The Transformer encoder: eq. 2 and 3 for every layer, then the norm of eq. 4."""

import abc
from collections.abc import Iterator, Sequence
from itertools import chain

from torch import Tensor, nn

from patchwords.errors import UsageError
from patchwords.layers.block import Layer
from patchwords.layers.tokens import Tokens
from patchwords.layers.unit import Unit


class Encoder(nn.Module, abc.ABC):
    """z₀ to LN(z_L); `position` is what Table 8's other columns add before each block."""

    def __init__(self, blocks: Sequence[Unit], position: nn.Module, norm: nn.Module):
        super().__init__()
        self.blocks = nn.ModuleList(blocks)
        self.position = position
        self.norm = norm

    @abc.abstractmethod
    def trace(self, tokens: Tokens) -> Iterator[Tokens]:
        """The sequence after every block: dense heads and inspection read it, nobody needs hooks."""

    @abc.abstractmethod
    def attention(self, tokens: Tokens, at: Sequence[int]) -> list[Tensor]:
        """The weights (batch, heads, tokens, tokens) of the blocks numbered in `at`, from 1, and of no others."""

    def forward(self, tokens: Tokens) -> Tokens:
        for z in self.trace(tokens):  # noqa: B007  # only the last is wanted
            pass
        return z.replace(self.norm(z.x))


class GlobalEncoder(Encoder):
    """The paper's: every token attends to every token."""

    def trace(self, tokens: Tokens) -> Iterator[Tokens]:
        for layer, block in enumerate(self.blocks):
            tokens = self.position(tokens, layer)
            tokens = tokens.replace(block(tokens.x))  # eq. 2 and 3
            yield tokens

    def attention(self, tokens: Tokens, at: Sequence[int]) -> list[Tensor]:
        check_layers(at, len(self.blocks))
        found: dict[int, Tensor] = {}
        before = chain([tokens], self.trace(tokens))
        for layer, (block, z) in enumerate(zip(self.blocks[: max(at, default=0)], before, strict=False)):
            assert isinstance(block, Layer)
            if layer + 1 in at:
                found[layer + 1] = block.weights(self.position(z, layer).x)
        return [found[number] for number in at]


class AtStem(nn.Module):
    """The paper's default: positions were added once, in eq. 1, and the encoder adds none."""

    def forward(self, tokens: Tokens, layer: int) -> Tokens:
        return tokens


def check_layers(at: Sequence[int], depth: int) -> None:
    if wrong := [number for number in at if not 1 <= number <= depth]:
        raise UsageError(f"there is no layer {wrong[0]}: layers are numbered 1 to {depth}")
