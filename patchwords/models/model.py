"""What every model here can be asked."""

import abc
from collections.abc import Sequence
from typing import Any, Literal

from torch import Tensor, nn

from patchwords.layers.look import Gaze

Shows = Literal["gaze", "evidence", "nothing"]


class Model(nn.Module, abc.ABC):
    """Pictures (batch, channels, height, width) to logits (batch, classes); built from the frozen `config`."""

    config: Any

    @abc.abstractmethod
    def forward(self, images: Tensor) -> Tensor: ...

    @abc.abstractmethod
    def pair(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """The logits that learn from labels and those that learn from a teacher: one and the same but for DeiT."""

    @abc.abstractmethod
    def represent(self, images: Tensor) -> Tensor:
        """The vector that the classifier sees."""

    def glimpse(self, images: Tensor) -> Tensor:
        """The same of pictures of another size than the model's: positions that are for one size are resampled."""
        return self.represent(images)

    @abc.abstractmethod
    def features(self, images: Tensor, at: Sequence[int]) -> list[Tensor]:
        """The maps (batch, width, rows, cols) after the blocks or stages numbered in `at`, from 1: for dense tasks."""

    @abc.abstractmethod
    def attention(self, images: Tensor, at: Sequence[int]) -> list[Tensor]:
        """The attention weights (batch, heads, tokens, tokens) of the blocks numbered in `at`, from 1."""

    @abc.abstractmethod
    def gaze(self, images: Tensor) -> Gaze:
        """How the model looks at pictures, block by block; the weights are made when they are asked for."""

    @abc.abstractmethod
    def evidence(self, images: Tensor, of: Tensor) -> Tensor:
        """How much each place adds to the logit of a class, `of` (batch): (batch, rows, cols), whose mean it is."""

    @property
    @abc.abstractmethod
    def shows(self) -> Shows:
        """What tells where the model looks: its gaze, the evidence for a class, or nothing."""

    @abc.abstractmethod
    def filters(self) -> Tensor:
        """The kernels that see the pixels: (filters, channels, height, width)."""

    @abc.abstractmethod
    def positions(self) -> Tensor:
        """What is added to each patch for its place: (rows, cols, width)."""
