"""What every model here can be asked."""

import abc
from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn


class Model(nn.Module, abc.ABC):
    """Pictures (batch, channels, height, width) to logits (batch, classes); built from the frozen `config`."""

    config: Any

    @abc.abstractmethod
    def forward(self, images: Tensor) -> Tensor: ...

    @abc.abstractmethod
    def represent(self, images: Tensor) -> Tensor:
        """The vector that the classifier sees."""

    @abc.abstractmethod
    def features(self, images: Tensor, at: Sequence[int]) -> list[Tensor]:
        """The maps (batch, width, rows, cols) after the blocks or stages numbered in `at`, from 1: for dense tasks."""

    @abc.abstractmethod
    def attention(self, images: Tensor, at: Sequence[int]) -> list[Tensor]:
        """The attention weights (batch, heads, tokens, tokens) of the blocks numbered in `at`, from 1."""
