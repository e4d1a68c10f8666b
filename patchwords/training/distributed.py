"""One process or many: under `torchrun` the same program runs in each, and they agree here."""

import os
import pickle
import sys
import time
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
LETTING_GO = 1.0  # seconds that a thread of gloo is waited for at most

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
        return int(self._together(torch.tensor(number), dist.ReduceOp.MAX))

    def total(self, values: Tensor) -> Tensor:
        """The sum over the processes, on the CPU."""
        if self.size == 1:
            return values
        return self._together(values.detach().double().cpu())

    def gathered(self, value: Any) -> list[Any]:
        """What every process gives, by rank."""
        if self.size == 1:
            return [value]
        mine = pickle.dumps(value)
        lengths = torch.zeros(self.size, dtype=torch.int64)
        lengths[self.rank] = len(mine)
        lengths = self._together(lengths)
        rows = torch.zeros(self.size, int(lengths.max()), dtype=torch.uint8)
        rows[self.rank, : len(mine)] = torch.frombuffer(bytearray(mine), dtype=torch.uint8)
        rows = self._together(rows)
        return [
            pickle.loads(row[:length].numpy().tobytes()) for row, length in zip(rows, lengths.tolist(), strict=True)
        ]

    def told(self, value: Any) -> Any:
        """What the first process says, for all."""
        return self.gathered(value if self.leads else None)[0]

    def _together(self, shared: Tensor, operation: Any = dist.ReduceOp.SUM) -> Tensor:
        """Everybody's tensors as one; gloo's thread, which has the answer a moment before it lets go, has let go then.

        It needs the interpreter for that: a process that ended just then would be aborted.
        """
        alone = _holders(shared)
        dist.all_reduce(shared, operation, group=self.talk)
        patience = time.monotonic() + LETTING_GO
        while _holders(shared) > alone and time.monotonic() < patience:
            time.sleep(0)
        return shared


def _holders(tensor: Tensor) -> int:
    """How many references there are to a tensor, from Python and from C++ (`torch.utils.swap_tensors` asks so too)."""
    return sys.getrefcount(tensor) + tensor._use_count()  # type: ignore[attr-defined]


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
