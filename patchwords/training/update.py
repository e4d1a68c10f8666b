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
from patchwords.speed.attention import fastest
from patchwords.speed.precision import Precision, autocast
from patchwords.speed.step import Graph, Step
from patchwords.training.distributed import World
from patchwords.training.recordable import recordable
from patchwords.training.watch import Watcher

NORM = "norm"  # of the gradients, among the numbers of a step


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
    graph: Graph = "never"  # whether a batch that is taken whole is one graph on the device
    alone: bool = False  # whether nobody else uses the device meanwhile
    parameters: list[nn.Parameter] = field(init=False)
    whole: Step = field(init=False)

    def __post_init__(self) -> None:
        self.parameters = [each for group in self.optimizer.param_groups for each in group["params"]]
        graph = recordable(
            self.graph,
            device=self.world.device,
            processes=self.world.size,
            scaled=self.scaler.is_enabled(),
            skips=self.skips,
            whole=self.micro >= self.batch,
            note=self.watcher.note,
        )
        self.whole = Step(self._whole, graph=graph, alone=self.alone, device=self.world.device, note=self.watcher.note)

    def __call__(self, loaded: Loaded, step: int, progress: float) -> tuple[dict[str, Tensor], Tensor]:
        """The means over the batch (loss and numbers), and the norm of the gradients."""
        while True:
            try:
                numbers = self._made(loaded, step, progress)
                return numbers, numbers.pop(NORM)
            except torch.OutOfMemoryError as error:
                self._shrink(error)

    def forget(self) -> None:
        """The parameters or the optimizer's memory were changed from outside."""
        self.whole.forget()

    def _made(self, loaded: Loaded, step: int, progress: float) -> dict[str, Tensor]:
        """The numbers of a batch, and the norm among them, when it has done its work."""
        count = loaded.labels.shape[0]
        if count <= self.micro:
            return self.whole(self._batch(loaded, slice(0, count), step, progress))
        self._begin()
        sums: dict[str, Tensor] = {}
        for start in range(0, count, self.micro):
            piece = slice(start, min(start + self.micro, count))
            batch = self._batch(loaded, piece, step, progress)
            with self._gathering(piece.stop == count):
                numbers = self._gradients(batch, piece.stop - start)
            for name, value in numbers.items():
                sums[name] = sums[name] + value if name in sums else value
        return sums | {NORM: self._descend(sums["loss"])}

    def _whole(self, batch: Batch) -> dict[str, Tensor]:
        """All that the device does with a batch in one piece."""
        self._begin()
        numbers = self._gradients(batch, len(batch["image"]))
        return numbers | {NORM: self._descend(numbers["loss"])}

    def _begin(self) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        self.objective.before_step()

    def _batch(self, loaded: Loaded, piece: slice, step: int, progress: float) -> Batch:
        """Some pictures as the objective needs them, and the address of what is drawn while it works."""
        device, finish = self.world.device, self.finish
        seed(draws.seed("dropout", finish.seed, step, self.first + piece.start), device)
        batch: Batch = finish(
            loaded.images[piece].to(device, non_blocking=True),
            loaded.labels[piece].to(device, non_blocking=True),
            indices=loaded.indices[piece],
            views=loaded.views[piece],
            step=step,
            progress=progress,
            further={name: stack[piece].to(device, non_blocking=True) for name, stack in loaded.further.items()},
        )
        return batch | onto(self.objective.drawn(finish.seed, loaded.views[piece], loaded.indices[piece]), device)

    def _gradients(self, batch: Batch, count: int) -> dict[str, Tensor]:
        """Adds the gradients of some pictures; their numbers are weighted by their share of the batch."""
        device, share = self.world.device, count / self.batch
        with fastest(device):
            with autocast(self.precision, device):
                loss, numbers = self.module(batch)
            self.scaler.scale(loss * (share * self.world.size)).backward()  # DDP takes the mean over processes
        return {name: value.detach() * share for name, value in {"loss": loss, **numbers}.items()}

    def _descend(self, loss: Tensor) -> Tensor:
        """Moves the parameters, and gives the norm of their gradients."""
        try:
            return self._moved(loss)
        except torch.OutOfMemoryError as error:  # some parameters have moved, perhaps: it cannot be made again
            raise self._full() from error

    def _moved(self, loss: Tensor) -> Tensor:
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
        self.whole.forget()
        self.optimizer.zero_grad(set_to_none=True)
        torch.cuda.empty_cache()
        self.micro = max(2, self.micro // 4 * 2)
        self.watcher.note(f"out of memory: from here on {self.micro} pictures at a time; the batch stays {self.batch}")

    def _full(self) -> ResourceError:
        return ResourceError(
            f"out of memory with {self.micro} pictures at a time: set micro to fewer, recompute=true, "
            "precision=bf16, a smaller model or picture"
        )


def seed(number: int, device: torch.device) -> None:
    """`torch.manual_seed` for this device and the CPU; for all others it takes a quarter of a millisecond."""
    torch.default_generator.manual_seed(number)
    if device.type == "cuda":
        with torch.cuda.device(device):
            torch.cuda.manual_seed(number)
    elif device.type == "mps":
        torch.mps.manual_seed(number)


def onto(drawn: Drawn, device: torch.device) -> Batch:
    """What the samples' addresses decided, as tensors of a batch."""
    return {name: torch.from_numpy(rows).to(device, non_blocking=True) for name, rows in drawn.items()}


def named(source: Any, indices: Sequence[int] | Indices, most: int = 8) -> str:
    """The names of pictures, for a sentence."""
    names = [source.name(int(index)) for index in indices[:most]]
    return ", ".join(names) + (f" and {len(indices) - most} more" if len(indices) > most else "")
