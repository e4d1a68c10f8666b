"""What every objective is: a module whose forward is the loss."""

import abc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from numpy.typing import NDArray
from torch import Tensor, nn

from patchwords.data.order import Indices
from patchwords.data.preprocess import Preprocess
from patchwords.models.model import Model

Batch = dict[str, Tensor]
Numbers = dict[str, Tensor]  # what to log beside the loss, each a mean over the batch
Drawn = dict[str, NDArray[Any]]  # a row for each sample of a batch

# What a person does next with a model that has learned without labels; settings may say something else.
FEATURES = (
    "`patchwords evaluate {run} DATA --knn 20` says what it knows of labelled pictures, "
    "`patchwords train DATA --weights {run}` fine-tunes it"
)


class Guide(NamedTuple):
    """Another model that is learned from (a teacher, a tokenizer), and how pictures are prepared for it."""

    model: nn.Module
    preprocess: Preprocess
    classes: tuple[str, ...] = ()  # their names, where they are known
    digest: str = ""  # tells it from any other


@dataclass(frozen=True)
class Surroundings:
    """What an objective may ask of the run that it is built for."""

    preprocess: Preprocess  # how the model's own pictures are prepared
    classes: tuple[str, ...]  # of the data
    open: Callable[[str], Guide]  # any MODEL: a run, a weights file, a name
    answers: Callable[[Guide], NDArray[Any]]  # a guide's logits for every training picture; refused if these change


class Objective(nn.Module, abc.ABC):
    """Owns the model and whatever only training needs.

    `model` is what is saved, averaged, evaluated and exported; `needs` are the keys of a batch that `forward` reads.
    """

    model: Model
    needs: tuple[str, ...]

    @abc.abstractmethod
    def forward(self, batch: Batch) -> tuple[Tensor, Numbers]:
        """The loss, a mean over the batch, and numbers to log."""

    def drawn(self, seed: int, views: Indices, indices: Indices) -> Drawn:
        """What the addresses of the samples decide, such as their masks; it joins the batch under these names."""
        return {}

    def before_step(self) -> None:
        """Called before the gradients of a batch are made, and again where that is tried again."""

    def after_step(self, progress: float) -> None:
        """Called after every update with the share of the training that is done: for momentum teachers."""
