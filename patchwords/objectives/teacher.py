"""The answers that a student learns from: a frozen model that is asked each time, or what it once said."""

import abc
from collections.abc import Callable
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from patchwords.data.order import Indices
from patchwords.data.preprocess import Preprocess
from patchwords.data.sources.names import listed
from patchwords.errors import ModelError
from patchwords.models.model import Model
from patchwords.objectives.guide import shown
from patchwords.objectives.objective import Batch, Drawn, Guide, Surroundings


class Teacher(abc.ABC):
    """A batch to the teacher's logits (batch, classes), classes in the order of the data."""

    needs: tuple[str, ...]  # of a batch, besides the pictures

    @abc.abstractmethod
    def __call__(self, batch: Batch) -> Tensor: ...

    @abc.abstractmethod
    def drawn(self, indices: Indices) -> Drawn:
        """What it adds to a batch of these pictures."""

    @abc.abstractmethod
    def move(self, fn: Callable[[Tensor], Tensor]) -> None:
        """Follows the student to another device."""


class Asked(Teacher):
    """A model that sees what the student sees, mixed and augmented alike, prepared in its own way."""

    needs = ()

    def __init__(self, guide: Guide, given: Preprocess, outputs: list[int]):
        self.guide = guide
        self.given = given
        self.outputs = torch.tensor(outputs)

    @torch.no_grad()
    def __call__(self, batch: Batch) -> Tensor:
        logits: Tensor = self.guide.model(shown(batch["image"], self.given, self.guide.preprocess))
        return logits.float().index_select(1, self.outputs)

    def drawn(self, indices: Indices) -> Drawn:
        return {}

    def move(self, fn: Callable[[Tensor], Tensor]) -> None:
        self.guide.model._apply(fn)
        self.outputs = fn(self.outputs)


class Remembered(Teacher):
    """The logits (pictures, classes) that were written down; looked up by the number of the picture."""

    needs = ("taught",)

    def __init__(self, logits: NDArray[Any]):
        self.logits = logits

    def __call__(self, batch: Batch) -> Tensor:
        return batch["taught"].float()

    def drawn(self, indices: Indices) -> Drawn:
        return {"taught": self.logits[indices]}

    def move(self, fn: Callable[[Tensor], Tensor]) -> None:
        """They stay on the host, and come with each batch."""


def order(guide: Guide, around: Surroundings, channels: int, name: str) -> list[int]:
    """Which output of the teacher stands for each class of the data: by name where it knows names."""
    if isinstance(guide.model, Model) and not guide.model.config.classes:
        raise ModelError(
            f"teacher {name} has learned no classes: take one that was trained with labels, or fine-tune it first "
            "(`patchwords train DATA --weights TEACHER`)"
        )
    outputs, classes = _outputs(guide, around, channels), around.classes
    if outputs != len(classes):
        raise ModelError(
            f"teacher {name} knows {outputs} classes, and the data has {len(classes)}: take one that was trained on "
            "these, or fine-tune it to them first (`patchwords train DATA --weights TEACHER`)"
        )
    if not guide.classes:
        return list(range(outputs))
    if unknown := [wanted for wanted in classes if wanted not in set(guide.classes)]:
        raise ModelError(
            f"teacher {name} does not know {listed(unknown)}; it knows {listed(guide.classes)}: name the classes "
            "alike, or take another teacher"
        )
    places = {known: place for place, known in enumerate(guide.classes)}
    return [places[wanted] for wanted in classes]


@torch.no_grad()
def _outputs(guide: Guide, around: Surroundings, channels: int) -> int:
    """How many answers it gives; asked about one black picture, so that whatever does not fit shows before training."""
    parameter = next(guide.model.parameters())
    black = parameter.new_zeros(1, channels, *around.preprocess.size)
    logits: Tensor = guide.model(shown(black, around.preprocess, guide.preprocess))
    return logits.shape[1]
