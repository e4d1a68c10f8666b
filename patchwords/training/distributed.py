"""One process or many: under `torchrun` the same program runs in each, and they agree here."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from patchwords.speed.device import choose

PATIENCE = timedelta(minutes=30)  # the first rank may write a report while the others wait

# Groups are never taken down while the process lives: whoever does so holds the interpreter and waits for gloo's
# threads, and these in turn need the interpreter to let go of the last tensor that they sent.
_KEPT: list[Any] = []


@dataclass(frozen=True)
class World:
    """Who this process is among `size`, and the device it works on."""

    rank: int
    size: int
    device: torch.device
    talk: Any = None  # the group in which decisions are made, on the CPU, so that no device waits for them

    @property
    def leads(self) -> bool:
        """Whether this is the process that writes and speaks."""
        return self.rank == 0

    def wrap(self, module: nn.Module) -> nn.Module:
        """The module whose gradients are averaged over all processes."""
        if self.size == 1:
            return module
        devices = [self.device] if self.device.type == "cuda" else None
        # Buffers are equal in all processes, or each one's own until a step ends; how to say so differs by version.
        names = [name for name, _ in module.named_buffers()]
        DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(module, names)
        return DistributedDataParallel(module, device_ids=devices)

    def most(self, number: int) -> int:
        """The largest of the numbers that the processes give."""
        if self.size == 1:
            return number
        shared = torch.tensor(number)
        dist.all_reduce(shared, dist.ReduceOp.MAX, group=self.talk)
        return int(shared)

    def total(self, values: Tensor) -> Tensor:
        """The sum over the processes, on the CPU."""
        if self.size == 1:
            return values
        shared = values.detach().double().cpu()
        dist.all_reduce(shared, group=self.talk)
        return shared

    def gathered(self, value: Any) -> list[Any]:
        """What every process gives, by rank."""
        if self.size == 1:
            return [value]
        values: list[Any] = [None] * self.size
        dist.all_gather_object(values, value, group=self.talk)
        return values

    def told(self, value: Any) -> Any:
        """What the first process says, for all."""
        if self.size == 1:
            return value
        box = [value]
        dist.broadcast_object_list(box, src=0, group=self.talk)
        return box[0]


@contextmanager
def world(device: str) -> Iterator[World]:
    """The processes that torchrun started, or this one alone."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        yield World(0, 1, choose(device, 0))
        return
    place = choose(device, int(os.environ.get("LOCAL_RANK", "0")))
    if place.type == "cuda":
        torch.cuda.set_device(place)
    dist.init_process_group("nccl" if place.type == "cuda" else "gloo", timeout=PATIENCE)
    try:
        talk = dist.new_group(backend="gloo", timeout=PATIENCE) if place.type == "cuda" else None
        _KEPT.extend((dist.group.WORLD, talk))
        yield World(dist.get_rank(), size, place, talk)
    finally:
        dist.destroy_process_group()
