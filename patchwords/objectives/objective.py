"""What every objective is: a module whose forward is the loss."""

import abc

from torch import Tensor, nn

from patchwords.models.model import Model

Batch = dict[str, Tensor]
Numbers = dict[str, Tensor]  # what to log beside the loss, each a mean over the batch


class Objective(nn.Module, abc.ABC):
    """Owns the model and whatever only training needs.

    `model` is what is saved, averaged, evaluated and exported; `needs` are the keys of a batch that `forward` reads.
    """

    model: Model
    needs: tuple[str, ...]

    @abc.abstractmethod
    def forward(self, batch: Batch) -> tuple[Tensor, Numbers]:
        """The loss, a mean over the batch, and numbers to log."""

    @abc.abstractmethod
    def after_step(self, progress: float) -> None:
        """Called after every update with the share of the training that is done: for momentum teachers."""
