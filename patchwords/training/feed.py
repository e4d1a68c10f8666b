"""The batches of a run, from files or from a cache; and the pictures it is judged by."""

from collections.abc import Generator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from patchwords.data.broken import Broken
from patchwords.data.cache import Held
from patchwords.data.loader import Cut, Loading, Prepare, scored, shown
from patchwords.data.order import Indices, Order
from patchwords.training.distributed import World
from patchwords.training.update import Loaded

EVALUATED = 64  # pictures at a time


@dataclass(frozen=True)
class Streamed:
    """Every picture is read and decoded when its turn comes."""

    cut: Cut
    order: Order
    batch: int
    part: slice  # of every batch, for this process
    loading: Loading
    broken: Broken

    def batches(self, start: int, stop: int) -> Generator[Loaded]:
        every = shown(self.cut, self.order, self.batch, self.part, range(start, stop), self.loading, self.broken)
        for pictures in every:
            images, labels = torch.from_numpy(pictures.images), torch.from_numpy(pictures.labels)
            further = {name: torch.from_numpy(stack) for name, stack in pictures.further.items()}
            yield Loaded(images, labels, pictures.indices, pictures.views, further)


@dataclass(frozen=True)
class Cached:
    """Every picture is in memory, and cut on the device."""

    held: Held
    cut: Cut
    order: Order
    batch: int
    part: slice
    device: torch.device

    def batches(self, start: int, stop: int) -> Generator[Loaded]:
        rows = range(*self.part.indices(self.batch))
        for step in range(start, stop):
            indices, views = self.order.take(step * self.batch + rows.start, step * self.batch + rows.stop)
            crops = self._crops(indices, views)
            images = crops.pop("image")[:, 0]
            labels = torch.from_numpy(self.held.labels[self.held.rows(indices)])
            yield Loaded(images, labels, indices, views, crops)

    def _crops(self, indices: Indices, views: Indices) -> dict[str, Tensor]:
        cut = self.cut
        parts = cut.glimpses.parts(cut.crop, cut.preprocess.size)
        return self.held.crops(parts, cut.preprocess, self.device, seed=cut.seed, views=views, indices=indices)


def judged(prepare: Prepare, world: World, loading: Loading, broken: Broken) -> Generator[Loaded]:
    """This process's part of the pictures, read from their files: each is seen once, by one process."""
    mine = np.arange(world.rank, len(prepare.source), world.size)
    for pictures in scored(prepare, mine, EVALUATED, loading, broken):
        images, labels = torch.from_numpy(pictures.images), torch.from_numpy(pictures.labels)
        yield Loaded(images, labels, pictures.indices, pictures.views)


def judged_held(held: Held, world: World) -> Generator[Loaded]:
    """The same, from a cache."""
    mine = np.arange(world.rank, len(held.labels), world.size)
    for start in range(0, len(mine), 4 * EVALUATED):
        rows = mine[start : start + 4 * EVALUATED]
        labels = torch.from_numpy(held.labels[rows])
        yield Loaded(held.take(rows, held.images.device), labels, held.indices[rows], np.zeros_like(rows))
