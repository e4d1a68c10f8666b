"""One update of the parameters from a batch of any size, in pieces that fit the memory."""

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from patchwords.data.finish import Finish
from patchwords.data.order import Indices
from patchwords.errors import ResourceError
from patchwords.objectives.objective import Batch, Drawn, Objective
from patchwords.ops import draws
from patchwords.speed.precision import Precision, autocast
from patchwords.training.distributed import World
from patchwords.training.watch import Watcher


@dataclass(frozen=True)
class Loaded:
    """This process's part of a batch: uint8 pictures and their labels, and their addresses."""

    images: Tensor  # (n, channels, height, width)
    labels: Tensor
    indices: Indices
    views: Indices
    further: dict[str, Tensor] = field(default_factory=dict)  # other crops, by part: (n, crops, …)


@dataclass
class Update:
    """Forward and backward over the pieces, then one step of the optimizer.

    A piece weighs as much as its share of the whole batch, so the number of pieces and processes does not matter.
    """

    module: nn.Module  # the objective as it is called: compiled, wrapped
    objective: Objective
    optimizer: torch.optim.Optimizer
    scaler: torch.amp.GradScaler
    finish: Finish
    world: World
    watcher: Watcher
    precision: Precision
    clip: float
    batch: int  # of all processes together
    micro: int  # pictures in a piece
    first: int  # where this process's part of the batch begins
    skips: bool = False  # whether an update with gradients that are not finite is left out, at the price of a wait
    parameters: list[nn.Parameter] = field(init=False)

    def __post_init__(self) -> None:
        self.parameters = [each for group in self.optimizer.param_groups for each in group["params"]]

    def __call__(self, loaded: Loaded, step: int, progress: float) -> tuple[dict[str, Tensor], Tensor]:
        """The means over the batch (loss and numbers), and the norm of the gradients."""
        while True:
            try:
                sums = self._gradients(loaded, step, progress)
                break
            except torch.OutOfMemoryError as error:
                self._shrink(error)
        try:
            return sums, self._descend(sums["loss"])
        except torch.OutOfMemoryError as error:  # some parameters have moved, perhaps: it cannot be made again
            raise self._full() from error

    def _gradients(self, loaded: Loaded, step: int, progress: float) -> dict[str, Tensor]:
        """Those of the whole batch, and its means."""
        self.optimizer.zero_grad(set_to_none=True)
        self.objective.before_step()
        count = loaded.labels.shape[0]
        pieces = [slice(start, min(start + self.micro, count)) for start in range(0, count, self.micro)]
        sums: dict[str, Tensor] = {}
        for piece in pieces:
            with self._gathering(piece is pieces[-1]):
                numbers = self._piece(loaded, piece, step, progress)
            for name, value in numbers.items():
                sums[name] = sums[name] + value if name in sums else value
        return sums

    def _piece(self, loaded: Loaded, piece: slice, step: int, progress: float) -> dict[str, Tensor]:
        """Adds the gradients of some pictures; their numbers are weighted by their share of the batch."""
        device, finish = self.world.device, self.finish
        torch.manual_seed(draws.seed("dropout", finish.seed, step, self.first + piece.start))
        batch: Batch = finish(
            loaded.images[piece].to(device, non_blocking=True),
            loaded.labels[piece].to(device, non_blocking=True),
            indices=loaded.indices[piece],
            views=loaded.views[piece],
            step=step,
            progress=progress,
            further={name: stack[piece].to(device, non_blocking=True) for name, stack in loaded.further.items()},
        )
        batch |= onto(self.objective.drawn(finish.seed, loaded.views[piece], loaded.indices[piece]), device)
        share = (piece.stop - piece.start) / self.batch
        with autocast(self.precision, device):
            loss, numbers = self.module(batch)
        self.scaler.scale(loss * (share * self.world.size)).backward()  # DDP takes the mean over processes
        return {name: value.detach() * share for name, value in {"loss": loss, **numbers}.items()}

    def _descend(self, loss: Tensor) -> Tensor:
        self.scaler.unscale_(self.optimizer)
        gradients = [each.grad for each in self.parameters if each.grad is not None]
        norm = torch.nn.utils.get_total_norm(gradients)
        if self.clip:
            torch.nn.utils.clip_grads_with_norm_(self.parameters, self.clip, norm)
        if self.skips and not self.scaler.is_enabled() and self._is_lost(norm, loss):
            return norm + math.nan
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return norm.detach()

    def _is_lost(self, norm: Tensor, loss: Tensor) -> bool:
        """Whether anything is not finite in any process: gradients are everybody's, a loss is of one part alone."""
        return self.world.most(int(not bool(norm.isfinite() & loss.isfinite()))) > 0

    def _gathering(self, last: bool) -> AbstractContextManager[Any]:
        """Gradients travel between processes with the last piece only."""
        if last or not isinstance(self.module, DistributedDataParallel):
            return nullcontext()
        return self.module.no_sync()

    def _shrink(self, error: Exception) -> None:
        """Smaller pieces; the batch and its order stay."""
        if self.world.size > 1 or self.micro <= 2:
            raise self._full() from error
        self.optimizer.zero_grad(set_to_none=True)
        torch.cuda.empty_cache()
        self.micro = max(2, self.micro // 4 * 2)
        self.watcher.note(f"out of memory: from here on {self.micro} pictures at a time; the batch stays {self.batch}")

    def _full(self) -> ResourceError:
        return ResourceError(
            f"out of memory with {self.micro} pictures at a time: set micro to fewer, recompute=true, "
            "precision=bf16, a smaller model or picture"
        )


def onto(drawn: Drawn, device: torch.device) -> Batch:
    """What the samples' addresses decided, as tensors of a batch."""
    return {name: torch.from_numpy(rows).to(device, non_blocking=True) for name, rows in drawn.items()}


def rates(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Sets every group's learning rate: the schedule's, times the group's own factor."""
    for group in optimizer.param_groups:
        group["lr"] = rate * group["scale"]


def named(source: Any, indices: Sequence[int] | Indices, most: int = 8) -> str:
    """The names of pictures, for a sentence."""
    names = [source.name(int(index)) for index in indices[:most]]
    return ", ".join(names) + (f" and {len(indices) - most} more" if len(indices) > most else "")
