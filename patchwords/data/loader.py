"""From a source to pictures of one size: decoded, cut and resized, by other processes where that pays."""

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from patchwords.data import workers
from patchwords.data.broken import Broken, Damage, why
from patchwords.data.decoder import Decoder
from patchwords.data.glimpses import Glimpses, Part, numbered
from patchwords.data.order import Indices, Order
from patchwords.data.picture import BrokenPictureError, Picture, Size, open_picture, read_size
from patchwords.data.preprocess import Preprocess
from patchwords.data.sources.source import Labels, Pixels, Source
from patchwords.data.transforms import CropKind, boxes, cuts, prepare
from patchwords.errors import UsageError
from patchwords.settings import check

Task = TypeVar("Task", contravariant=True)
Result = TypeVar("Result", bound="Told", covariant=True)
Stack = TypeVar("Stack")  # an array or a tensor


class Told(Protocol):
    """Whatever tells what could not be read."""

    @property
    def damages(self) -> list[Damage]: ...


class Work(Protocol[Task, Result]):
    """What is done with a task, by any process: a pure function of it."""

    @property
    def room(self) -> int: ...
    def __call__(self, task: Task, /) -> Result: ...


CHUNK = 64  # pictures that a process makes at a time
ROOM = 256  # bytes a picture for its label, its address and its size


@dataclass(frozen=True, kw_only=True, slots=True)
class Loading:
    """Who decodes: so many processes (-1: as many as there are cores), each replaced when silent for `timeout` s."""

    workers: int = -1
    timeout: float = 120.0
    decoder: Decoder = "auto"  # of the JPEG files to train with

    def __post_init__(self) -> None:
        check(self)
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
        found = [self.readable(int(index), damages) for index in indices]
        sizes = np.array([picture.size for _, _, picture in found], dtype=np.int64)
        images, labels = [], []
        for (index, raw, _), *own in zip(found, *self.places(sizes, views, indices), strict=True):
            cropped, used = self.crops(index, raw, own, damages)
            images.append(cropped)
            labels.append(self.source.labels[used])
        stacks = self.by_part([np.stack(crop) for crop in zip(*images, strict=True)], np.stack)
        first = stacks.pop("image")[:, 0]
        return Pictures(first, np.array(labels, dtype=np.int64), indices, views, sizes, damages, stacks)

    @property
    def parts(self) -> list[Part]:
        return self.glimpses.parts(self.crop, self.preprocess.size)

    @property
    def wanted(self) -> list[Size]:
        """The size of every crop."""
        return [part.size for part in self.parts for _ in part.numbers]

    @property
    def room(self) -> int:
        """The bytes that some pictures take at most, with what is said of them."""
        return CHUNK * sum(self.channels * height * width for height, width in self.wanted) + CHUNK * ROOM

    def places(self, sizes: NDArray[np.int64], views: Indices, indices: Indices) -> list[NDArray[np.float64]]:
        """The boxes (n, 4) of every crop."""
        return [
            boxes(part.crop, sizes, self.preprocess, seed=self.seed, views=numbered(views, number), indices=indices)
            for part in self.parts
            for number in part.numbers
        ]

    def by_part(self, crops: Sequence[Stack], stack: Callable[[list[Stack], int], Stack]) -> dict[str, Stack]:
        """Every crop (n, channels, height, width) of all pictures, to (n, crops, …) by part."""
        stops = np.cumsum([part.crops for part in self.parts]).tolist()
        return {
            part.name: stack(list(crops[stop - part.crops : stop]), 1)
            for part, stop in zip(self.parts, stops, strict=True)
        }

    def readable(self, index: int, damages: list[Damage]) -> tuple[int, bytes | Pixels, Picture]:
        """The first picture from `index` on whose header can be read."""
        for _ in range(len(self.source)):
            try:
                raw = self.source.picture(index)
                return index, raw, open_picture(raw, self.preprocess.orientation)
            except (BrokenPictureError, OSError) as error:
                damages.append(self._damage(index, error))
                index = (index + 1) % len(self.source)
        raise BrokenPictureError("none of the pictures can be read")

    def crops(
        self, index: int, raw: bytes | Pixels, own: Sequence[NDArray[np.float64]], damages: list[Damage]
    ) -> tuple[list[Pixels], int]:
        """The crops and the picture's number; one that breaks only when decoded is replaced like the others, whole."""
        pre = self.preprocess
        try:
            places = list(zip(own, self.wanted, strict=True))
            return cuts(raw, places, pre.interpolation, self.channels, pre.orientation), index
        except BrokenPictureError as error:
            damages.append(self._damage(index, error))
        for _ in range(len(self.source)):
            index, raw, _ = self.readable((index + 1) % len(self.source), damages)
            try:
                return [prepare(raw, replace(pre, size=size), self.channels) for size in self.wanted], index
            except BrokenPictureError as error:
                damages.append(self._damage(index, error))
        raise BrokenPictureError("none of the pictures can be read")

    def _damage(self, index: int, error: Exception) -> Damage:
        name = self.source.name(index)
        return Damage(name, why(name, error))


@dataclass(frozen=True)
class Prepare:
    """Pictures as evaluation sees them; broken ones are left out, since no other may be scored twice."""

    source: Source
    preprocess: Preprocess
    channels: int

    @property
    def room(self) -> int:
        """The bytes that some pictures take at most, with what is said of them."""
        height, width = self.preprocess.size
        return CHUNK * (self.channels * height * width + ROOM)

    def __call__(self, indices: Indices) -> Pictures:
        return self._as_they_are(indices) or self._decoded(indices)

    def _as_they_are(self, indices: Indices) -> Pictures | None:
        """Arrays of the model's own size and channels, all at once; None if these are others."""
        shape = (*self.preprocess.size, self.channels)
        if self.preprocess.fit != "squash":
            return None
        every = []
        for index in indices:
            try:
                picture = self.source.picture(int(index))
            except (BrokenPictureError, OSError):
                return None
            if isinstance(picture, bytes) or picture.shape != shape or picture.dtype != np.uint8:
                return None
            every.append(picture)
        if not every:
            return None
        stack = np.ascontiguousarray(np.stack(every).transpose(0, 3, 1, 2))
        sizes = np.tile(np.array(self.preprocess.size, dtype=np.int64), (len(indices), 1))
        return Pictures(stack, self.source.labels[indices], indices, np.zeros_like(indices), sizes, [], {})

    def _decoded(self, indices: Indices) -> Pictures:
        images, kept, sizes, damages = [], [], [], []
        for index in indices:
            try:
                raw = self.source.picture(int(index))
                images.append(prepare(raw, self.preprocess, self.channels))
                sizes.append(read_size(raw, self.preprocess.orientation))
                kept.append(index)
            except (BrokenPictureError, OSError) as error:
                name = self.source.name(int(index))
                damages.append(Damage(name, why(name, error)))
        chosen = np.array(kept, dtype=np.int64)
        stack = np.stack(images) if images else np.empty((0, self.channels, *self.preprocess.size), dtype=np.uint8)
        true = np.array(sizes, dtype=np.int64).reshape(-1, 2)
        return Pictures(stack, self.source.labels[chosen], chosen, np.zeros_like(chosen), true, damages, {})


def shown(
    cut: Cut, order: Order, batch: int, part: slice, steps: Sequence[int], loading: Loading, broken: Broken
) -> Iterator[Pictures]:
    """This rank's part of the batches with these numbers."""
    for pictures in pieces(cut, cut.source, order, batch, part, steps, loading, broken):
        yield joined(pictures)


def pieces(
    work: Work[tuple[Indices, Indices], Result],
    source: Source,
    order: Order,
    batch: int,
    part: slice,
    steps: Sequence[int],
    loading: Loading,
    broken: Broken,
    stop: threading.Event | None = None,
) -> Iterator[list[Result]]:
    """The same as they come, in pieces of a batch."""
    rows = range(*part.indices(batch))

    def tasks() -> Iterator[tuple[Indices, Indices]]:
        for step in steps:
            for start in range(rows.start, rows.stop, CHUNK):
                end = min(start + CHUNK, rows.stop)
                yield order.take(step * batch + start, step * batch + end)

    count = -(-len(rows) // CHUNK)
    results = run(work, tasks(), source, loading, broken, stop)
    for _ in steps:
        found = list(islice(results, count))
        if len(found) < count:  # asked to stop
            return
        yield found
        del found  # their memory is wanted for the next ones


def scored(work: Prepare, indices: Indices, batch: int, loading: Loading, broken: Broken) -> Iterator[Pictures]:
    """All of these pictures once, in order."""
    tasks = (indices[start : start + batch] for start in range(0, len(indices), batch))
    yield from run(work, tasks, work.source, loading, broken)


def run(
    work: Work[Task, Result],
    tasks: Iterator[Task],
    source: Source,
    loading: Loading,
    broken: Broken,
    stop: threading.Event | None = None,
) -> Iterator[Result]:
    """The work's results in order; what was broken is counted."""
    for result in workers.ordered(
        work,
        tasks,
        workers=loading.processes(source),
        timeout=loading.timeout,
        note=broken.note,
        room=work.room,
        stop=stop,
    ):
        broken.add(result.damages)
        yield result


def joined(parts: Sequence[Pictures]) -> Pictures:
    if len(parts) == 1:
        return parts[0]
    images, labels, indices, views, sizes = (np.concatenate([part[i] for part in parts]) for i in range(5))
    damages = [damage for part in parts for damage in part.damages]
    further = {name: np.concatenate([part.further[name] for part in parts]) for name in parts[0].further}
    return Pictures(images, labels, indices, views, sizes, damages, further)
