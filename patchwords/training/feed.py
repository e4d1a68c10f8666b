"""The batches of a run, from files or from a cache; and the pictures it is judged by."""

import threading
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import torch
from torch import Tensor

from patchwords.data.ahead import ahead
from patchwords.data.broken import Broken
from patchwords.data.cache import Held
from patchwords.data.cutter import Cutter
from patchwords.data.decoder import Decoder, chosen
from patchwords.data.loader import Cut, Loading, Prepare, Result, Work, pieces, scored
from patchwords.data.order import Indices, Order
from patchwords.data.transfer import onto
from patchwords.data.uncut import Collect, together
from patchwords.training.distributed import World
from patchwords.training.update import Loaded

EVALUATED = 64  # pictures at a time
CPU = torch.device("cpu")
FIRST = -1  # the priority of a stream whose short work goes between the step's long work, which waits for it


@dataclass(frozen=True)
class Streamed:
    """Every picture is read and decoded when its turn comes, a batch or two ahead, and is on the device by then."""

    cut: Cut
    order: Order
    batch: int
    part: slice  # of every batch, for this process
    loading: Loading
    broken: Broken
    device: torch.device = CPU

    def __post_init__(self) -> None:
        self.decoder  # noqa: B018  (refuses one that is not there)

    @cached_property
    def decoder(self) -> Decoder:
        return chosen(self.loading.decoder, self.device, self.cut.channels, self.broken.note)

    def batches(self, start: int, stop: int) -> Generator[Loaded]:
        with closing(ahead(partial(self._made, range(start, stop)))) as made:
            for loaded, ready in made:
                if ready is not None:
                    _receive(loaded, ready)
                yield loaded

    def _made(self, steps: range, stop: threading.Event) -> Generator[tuple[Loaded, torch.cuda.Event | None]]:
        """On a stream of its own where there is CUDA: copies and decoding go on beside the step."""
        batches = self._cut(steps, stop) if self.decoder == "pillow" else self._uncut(steps, stop)
        if self.device.type != "cuda":
            for loaded in batches:
                yield loaded, None
            return
        with torch.cuda.stream(torch.cuda.Stream(self.device, priority=FIRST)):
            for loaded in batches:
                ready = torch.cuda.Event()
                ready.record()
                yield loaded, ready

    def _cut(self, steps: range, stop: threading.Event) -> Iterator[Loaded]:
        """Pictures that come ready."""
        for parts in self._pieces(self.cut, steps, stop):
            images = onto([part.images for part in parts], self.device)
            labels = onto([part.labels for part in parts], self.device)
            indices, views = (np.concatenate([part[i] for part in parts]) for i in (2, 3))
            further = {name: onto([part.further[name] for part in parts], self.device) for name in parts[0].further}
            del parts  # their memory is wanted for the next ones
            yield Loaded(images, labels, indices, views, further)

    def _uncut(self, steps: range, stop: threading.Event) -> Iterator[Loaded]:
        """Pictures that the device cuts."""
        cutter = Cutter(self.cut, self.device, self.broken.note)
        for parts in self._pieces(Collect(self.cut, self.decoder), steps, stop):
            uncut = together(parts)
            crops, damages = cutter(uncut)
            self.broken.add(damages)
            images, labels = crops.pop("image")[:, 0], onto([uncut.labels], self.device)
            loaded = Loaded(images, labels, uncut.indices, uncut.views, crops)
            del parts, uncut
            yield loaded

    def _pieces(
        self, work: Work[tuple[Indices, Indices], Result], steps: range, stop: threading.Event
    ) -> Iterator[list[Result]]:
        source, loading = self.cut.source, self.loading
        return pieces(work, source, self.order, self.batch, self.part, steps, loading, self.broken, stop)


def _receive(loaded: Loaded, ready: torch.cuda.Event) -> None:
    """The stream that will use a batch waits for it; its memory is not given away while that stream reads it."""
    here = torch.cuda.current_stream(loaded.images.device)
    here.wait_event(ready)
    for tensor in (loaded.images, loaded.labels, *loaded.further.values()):
        tensor.record_stream(here)


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
