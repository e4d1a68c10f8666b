"""From a source to pictures of one size: decoded, cut and resized, by other processes where that pays."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from patchwords.data import workers
from patchwords.data.broken import Broken, Damage
from patchwords.data.glimpses import Glimpses, Part, numbered
from patchwords.data.order import Indices, Order
from patchwords.data.picture import BrokenPictureError, Size, read_size
from patchwords.data.preprocess import Preprocess
from patchwords.data.sources.source import Labels, Pixels, Source
from patchwords.data.transforms import CropKind, boxes, cuts, prepare
from patchwords.errors import UsageError

Task = TypeVar("Task")

CHUNK = 64  # pictures that a process makes at a time


@dataclass(frozen=True, kw_only=True, slots=True)
class Loading:
    """Who decodes: so many processes (-1: as many as there are cores), each replaced when silent for `timeout` s."""

    workers: int = -1
    timeout: float = 120.0

    def __post_init__(self) -> None:
        if self.workers < -1:
            raise UsageError(f"workers {self.workers} is no number of processes: choose 0 or more, or -1 for automatic")
        if not self.timeout > 0:
            raise UsageError(f"timeout {self.timeout} is no time: choose seconds above 0")

    def processes(self, source: Source) -> int:
        """How many to use; pixels that are in memory already are not worth any."""
        if self.workers >= 0:
            return self.workers
        try:
            decoded = not isinstance(source.picture(0), bytes)
        except (BrokenPictureError, OSError):  # a file, then; who comes to it names it
            decoded = False
        return 0 if decoded else workers.automatic()


class Pictures(NamedTuple):
    """Some pictures of one size, uint8 (n, channels, height, width), and what could not be read among them."""

    images: Pixels
    labels: Labels
    indices: Indices
    views: Indices
    sizes: NDArray[np.int64]  # (n, 2): height and width of the files, upright
    damages: list[Damage]
    further: dict[str, Pixels]  # other crops of the same pictures, by part: (n, crops, channels, height, width)


@dataclass(frozen=True)
class Cut:
    """Pictures as training sees them, each cut at its address; a broken one is replaced by the next that is not."""

    source: Source
    crop: CropKind
    preprocess: Preprocess
    channels: int
    seed: int
    glimpses: Glimpses = Glimpses()  # noqa: RUF009 (a frozen value)

    def __call__(self, task: tuple[Indices, Indices]) -> Pictures:
        indices, views = task
        damages: list[Damage] = []
        found = [self._readable(int(index), damages) for index in indices]
        sizes = np.array([size for _, _, size in found], dtype=np.int64)
        parts = self.glimpses.parts(self.crop, self.preprocess.size)
        crops = [(part, number) for part in parts for number in part.numbers]
        places = [self._boxes(*crop, sizes, views, indices) for crop in crops]  # (n, 4) for each
        images, labels = [], []
        for (index, raw, _), *own in zip(found, *places, strict=True):
            wanted = [(box, part.size) for box, (part, _) in zip(own, crops, strict=True)]
            cropped, used = self._cut(index, raw, wanted, damages)
            images.append(cropped)
            labels.append(self.source.labels[used])
        stacks = _stacked(images, parts)
        first = stacks.pop("image")[:, 0]
        return Pictures(first, np.array(labels, dtype=np.int64), indices, views, sizes, damages, stacks)

    def _boxes(
        self, part: Part, number: int, sizes: NDArray[np.int64], views: Indices, indices: Indices
    ) -> NDArray[np.float64]:
        own = numbered(views, number)
        return boxes(part.crop, sizes, self.preprocess, seed=self.seed, views=own, indices=indices)

    def _readable(self, index: int, damages: list[Damage]) -> tuple[int, bytes | Pixels, tuple[int, int]]:
        """The first picture from `index` on whose header can be read."""
        for _ in range(len(self.source)):
            try:
                raw = self.source.picture(index)
                return index, raw, read_size(raw, self.preprocess.orientation)
            except (BrokenPictureError, OSError) as error:
                damages.append(Damage(self.source.name(index), str(error)))
                index = (index + 1) % len(self.source)
        raise BrokenPictureError("none of the pictures can be read")

    def _cut(
        self, index: int, raw: bytes | Pixels, places: list[tuple[NDArray[np.float64], Size]], damages: list[Damage]
    ) -> tuple[list[Pixels], int]:
        """The crops and the picture's number; one that breaks only when decoded is replaced like the others, whole."""
        pre = self.preprocess
        try:
            return cuts(raw, places, pre.interpolation, self.channels, pre.orientation), index
        except BrokenPictureError as error:
            damages.append(Damage(self.source.name(index), str(error)))
        for _ in range(len(self.source)):
            index, raw, _ = self._readable((index + 1) % len(self.source), damages)
            try:
                return [prepare(raw, replace(pre, size=size), self.channels) for _, size in places], index
            except BrokenPictureError as error:
                damages.append(Damage(self.source.name(index), str(error)))
        raise BrokenPictureError("none of the pictures can be read")


@dataclass(frozen=True)
class Prepare:
    """Pictures as evaluation sees them; broken ones are left out, since no other may be scored twice."""

    source: Source
    preprocess: Preprocess
    channels: int

    def __call__(self, indices: Indices) -> Pictures:
        images, kept, sizes, damages = [], [], [], []
        for index in indices:
            try:
                raw = self.source.picture(int(index))
                images.append(prepare(raw, self.preprocess, self.channels))
                sizes.append(read_size(raw, self.preprocess.orientation))
                kept.append(index)
            except (BrokenPictureError, OSError) as error:
                damages.append(Damage(self.source.name(int(index)), str(error)))
        chosen = np.array(kept, dtype=np.int64)
        stack = np.stack(images) if images else np.empty((0, self.channels, *self.preprocess.size), dtype=np.uint8)
        true = np.array(sizes, dtype=np.int64).reshape(-1, 2)
        return Pictures(stack, self.source.labels[chosen], chosen, np.zeros_like(chosen), true, damages, {})


def shown(
    cut: Cut, order: Order, batch: int, part: slice, steps: Sequence[int], loading: Loading, broken: Broken
) -> Iterator[Pictures]:
    """This rank's part of the batches with these numbers."""
    rows = range(*part.indices(batch))

    def tasks() -> Iterator[tuple[Indices, Indices]]:
        for step in steps:
            for start in range(rows.start, rows.stop, CHUNK):
                stop = min(start + CHUNK, rows.stop)
                yield order.take(step * batch + start, step * batch + stop)

    chunks = -(-len(rows) // CHUNK)
    results = run(cut, tasks(), cut.source, loading, broken)
    for _ in steps:
        yield joined([next(results) for _ in range(chunks)])


def scored(work: Prepare, indices: Indices, batch: int, loading: Loading, broken: Broken) -> Iterator[Pictures]:
    """All of these pictures once, in order."""
    tasks = (indices[start : start + batch] for start in range(0, len(indices), batch))
    yield from run(work, tasks, work.source, loading, broken)


def run(
    work: Callable[[Task], Pictures], tasks: Iterator[Task], source: Source, loading: Loading, broken: Broken
) -> Iterator[Pictures]:
    """The work's results in order; what was broken is counted."""
    processes = loading.processes(source)
    for pictures in workers.ordered(work, tasks, workers=processes, timeout=loading.timeout, note=broken.note):
        broken.add(pictures.damages)
        yield pictures


def joined(parts: Sequence[Pictures]) -> Pictures:
    if len(parts) == 1:
        return parts[0]
    images, labels, indices, views, sizes = (np.concatenate([part[i] for part in parts]) for i in range(5))
    damages = [damage for part in parts for damage in part.damages]
    further = {name: np.concatenate([part.further[name] for part in parts]) for name in parts[0].further}
    return Pictures(images, labels, indices, views, sizes, damages, further)


def _stacked(images: Sequence[Sequence[Pixels]], parts: Sequence[Part]) -> dict[str, Pixels]:
    """The crops of all pictures, one list each, by part: (n, crops, channels, height, width)."""
    stops = np.cumsum([part.crops for part in parts]).tolist()
    return {
        part.name: np.array([cropped[stop - part.crops : stop] for cropped in images])
        for part, stop in zip(parts, stops, strict=True)
    }
