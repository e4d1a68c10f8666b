"""The Transformer encoder: eq. 2 and 3 for every layer, then the norm of eq. 4."""

import abc
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from torch import Tensor, nn

from patchwords.errors import UsageError
from patchwords.layers.block import Layer
from patchwords.layers.look import Look
from patchwords.layers.tokens import Tokens
from patchwords.layers.unit import Unit

Step = TypeVar("Step")


class Encoder(nn.Module, abc.ABC):
    """z₀ to LN(z_L); `position` is what Table 8's other columns add before each block."""

    def __init__(self, blocks: Sequence[Unit], position: nn.Module, norm: nn.Module):
        super().__init__()
        self.blocks = nn.ModuleList(blocks)
        self.position = position
        self.norm = norm

    @abc.abstractmethod
    def step(self, tokens: Tokens, layer: int) -> Tokens:
        """z_(l-1) to z_l."""

    @abc.abstractmethod
    def looks(self, tokens: Tokens) -> Iterator[Look]:
        """Every block with what comes to it; the weights are made only where they are asked for."""

    def attention(self, tokens: Tokens, at: Sequence[int]) -> list[Tensor]:
        """The weights (batch, heads, tokens, tokens) of the blocks numbered in `at`, from 1, and of no others."""
        return numbered(at, len(self.blocks), self.looks(tokens), lambda look: look.weights())

    def trace(self, tokens: Tokens) -> Iterator[Tokens]:
        """The sequence after every block: dense heads and inspection read it, nobody needs hooks."""
        for layer in range(len(self.blocks)):
            tokens = self.step(tokens, layer)
            yield tokens

    def forward(self, tokens: Tokens) -> Tokens:
        for layer in range(len(self.blocks)):
            tokens = self.step(tokens, layer)
        return tokens.replace(self.norm(tokens.x))  # the LN of eq. 4


class GlobalEncoder(Encoder):
    """The paper's: every token attends to every token."""

    def step(self, tokens: Tokens, layer: int) -> Tokens:
        tokens = self.position(tokens, layer)
        return tokens.replace(self.blocks[layer](tokens.x))  # eq. 2 and 3

    def looks(self, tokens: Tokens) -> Iterator[Look]:
        for layer, block in enumerate(self.blocks):
            assert isinstance(block, Layer)
            tokens = self.position(tokens, layer)
            yield Look(block, tokens)
            if layer + 1 < len(self.blocks):  # nobody looks at what the last one makes
                tokens = tokens.replace(block(tokens.x))


class AtStem(nn.Module):
    """The paper's default: positions were added once, in eq. 1, and the encoder adds none."""

    def forward(self, tokens: Tokens, layer: int) -> Tokens:
        return tokens


def numbered(at: Sequence[int], depth: int, steps: Iterable[Step], show: Callable[[Step], Tensor]) -> list[Tensor]:
    """What the steps numbered in `at`, from 1, have to show; a step after the last of these is not made."""
    check_layers(at, depth)
    wanted = zip(range(1, max(at, default=0) + 1), steps, strict=False)
    shown = {number: show(step) for number, step in wanted if number in at}
    return [shown[number] for number in at]


def check_layers(at: Sequence[int], depth: int) -> None:
    if wrong := [number for number in at if not 1 <= number <= depth]:
        raise UsageError(f"there is no layer {wrong[0]}: layers are numbered 1 to {depth}")
