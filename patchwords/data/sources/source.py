"""What every source of pictures can be asked, and a data set made of them."""

import abc
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Labels = NDArray[np.int64]
Pixels = NDArray[np.uint8]  # (height, width, channels)


class Source(abc.ABC):
    """Pictures by number, each with a label; picklable, since the loader's workers each hold one."""

    labels: Labels  # an index into the classes, for every picture

    @abc.abstractmethod
    def picture(self, index: int) -> bytes | Pixels:
        """The bytes of a picture file, or pixels that were never a file."""

    @abc.abstractmethod
    def name(self, index: int) -> str:
        """What to call a picture: its path, or its place in an archive or array."""

    @abc.abstractmethod
    def size(self, index: int) -> int:
        """The number of bytes of a picture, told without reading it."""

    def __len__(self) -> int:
        return len(self.labels)


class Subset(Source):
    """Some pictures of another source, in the given order."""

    def __init__(self, source: Source, indices: Sequence[int] | NDArray[Any]):
        self.source = source
        self.indices = np.asarray(indices, dtype=np.int64)
        self.labels = source.labels[self.indices]

    def picture(self, index: int) -> bytes | Pixels:
        return self.source.picture(int(self.indices[index]))

    def name(self, index: int) -> str:
        return self.source.name(int(self.indices[index]))

    def size(self, index: int) -> int:
        return self.source.size(int(self.indices[index]))


class Joined(Source):
    """Several sources, one after the other."""

    def __init__(self, sources: Sequence[Source]):
        self.sources = tuple(sources)
        self.ends = np.cumsum([len(source) for source in sources])
        self.labels = np.concatenate([source.labels for source in sources])

    def picture(self, index: int) -> bytes | Pixels:
        source, place = self._found(index)
        return source.picture(place)

    def name(self, index: int) -> str:
        source, place = self._found(index)
        return source.name(place)

    def size(self, index: int) -> int:
        source, place = self._found(index)
        return source.size(place)

    def _found(self, index: int) -> tuple[Source, int]:
        which = int(np.searchsorted(self.ends, index, side="right"))
        source = self.sources[which]
        return source, index - int(self.ends[which]) + len(source)


@dataclass(frozen=True)
class Data:
    """A data set: what a model learns from, what it is judged by, and the names of the classes."""

    name: str  # short, for the run folder: "flower_photos"
    classes: tuple[str, ...]
    train: Source
    val: Source
    test: Source | None = None
    notes: tuple[str, ...] = ()  # what a person should hear: what was left out, and how the split came about
    channels: int = 3  # of the pictures; 1 where all are grey arrays

    @property
    def splits(self) -> dict[str, Source]:
        every = {"train": self.train, "val": self.val, "test": self.test}
        return {name: source for name, source in every.items() if source is not None}

    def digest(self) -> str:
        """SHA-256 over classes and every picture's split, name, label and size: whether this is the same data."""
        total = hashlib.sha256("\0".join(self.classes).encode())
        for split, source in self.splits.items():
            for index in range(len(source)):
                row = f"{split}\0{source.name(index)}\0{source.labels[index]}\0{source.size(index)}\n"
                total.update(row.encode("utf-8", "surrogateescape"))
        return total.hexdigest()
