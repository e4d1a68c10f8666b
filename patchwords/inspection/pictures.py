"""The pictures to look at: what was named, or what the model's own run held out; drawn the same each time."""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from patchwords.data.broken import Broken
from patchwords.data.loader import Prepare
from patchwords.data.sources.files import Files
from patchwords.data.sources.listing import is_picture, listing, pictures
from patchwords.data.sources.names import Names, printable
from patchwords.data.sources.source import Data, Joined, Pixels, Source
from patchwords.data.sources.split import Split
from patchwords.errors import DataError, NetworkError, UsageError
from patchwords.ops import draws
from patchwords.pages.wording import plural
from patchwords.weights.card import Card
from patchwords.weights.origin import Origin

Opening = Callable[[str, Split | None], Data]

LEAST = 160  # pixels of a side below which a picture is enlarged in whole steps, so that its pixels can be seen


@dataclass(frozen=True, kw_only=True)
class Stock:
    """All there are, and what to say of them; or, without any, the reason."""

    source: Source | None
    notes: tuple[str, ...] = ()
    reason: str = ""


def named(given: Sequence[str], opening: Opening) -> Stock:
    """Pictures, folders of pictures, and data sets, one after the other."""
    found = [_one(word, opening) for word in given]
    notes = tuple(note for each in found for note in each.notes)
    sources = [each.source for each in found if each.source]
    return Stock(source=sources[0] if len(sources) == 1 else Joined(sources), notes=notes)


def own(origin: Origin | None, opening: Opening) -> Stock:
    """What the run held out; where that is not to be had, the reason."""
    if origin is None:
        return Stock(
            source=None, reason="this figure needs pictures, and the model does not tell its own: add --images"
        )
    try:
        whole = opening(origin.data, None)
    except (UsageError, DataError, NetworkError) as error:
        return Stock(source=None, reason=f"the pictures of the run are not to be had ({error}): add --images")
    changed = f"{printable(origin.data)} has changed since the run learned from it"
    data = origin.divided(whole)
    return Stock(source=data.val) if data else Stock(source=whole.val, notes=(changed,))


def _one(given: str, opening: Opening) -> Stock:
    """A file that is called like a picture, a folder that holds some itself, or whatever else is a data set."""
    path = Path(os.path.expanduser(given))
    if given and path.is_file() and is_picture(path.name):
        return Stock(source=files(path.parent, [path.name]))
    if given and path.is_dir():
        here = listing(path)
        if found := pictures(here.files):
            left = f"{printable(given)} holds pictures itself, so its folders are left out"
            return Stock(source=files(path, found), notes=(left,) * bool(here.folders))
    data = opening(given, None)
    return Stock(source=data.val, notes=data.notes)


def files(folder: Path, names: Sequence[str]) -> Source:
    """Some pictures in a folder."""
    return Files(folder, Names(names), np.zeros(len(names), dtype=np.int64))


@dataclass(frozen=True, kw_only=True)
class Shot:
    """One picture as a model sees it: its name and uint8 (channels, height, width)."""

    name: str
    image: Pixels

    @property
    def pixels(self) -> Pixels:
        """For people (height, width, 3): of other channels than one and three the first; small ones enlarged."""
        image = self.image.transpose(1, 2, 0)
        colours = image[:, :, :3] if image.shape[2] >= 3 else np.repeat(image[:, :, :1], 3, axis=2)
        times = max(1, LEAST // max(colours.shape[:2]))
        return colours.repeat(times, axis=0).repeat(times, axis=1)


class Album:
    """The pictures of a source as a model takes them, in an order that is the same each time; broken ones are named."""

    def __init__(self, source: Source, card: Card, broken: Broken):
        self.source, self.broken = source, broken
        self.work = Prepare(source, card.preprocess, card.model.channels)
        self.order = draws.permutation("inspect", of=len(source))

    def batches(self, count: int, size: int) -> Iterator[Pixels]:
        """The first `count` that can be read, `size` at a time."""
        for images, _ in self._readable(count, size):
            yield images

    def shots(self, count: int) -> list[Shot]:
        """The first `count` that can be read, in the order in which they came."""
        found = [
            (int(index), image)
            for images, indices in self._readable(count, count)
            for image, index in zip(images, indices, strict=True)
        ]
        return [
            Shot(name=self.source.name(index), image=image) for index, image in sorted(found, key=lambda one: one[0])
        ]

    def _readable(self, count: int, size: int) -> Iterator[tuple[Pixels, NDArray[np.int64]]]:
        had = 0
        for start in range(0, len(self.order), size):
            some = self.work(self.order[start : start + size])
            self.broken.add(some.damages)
            kept = min(len(some.images), count - had)
            if kept:
                yield some.images[:kept], some.indices[:kept]
            had += kept
            if had == count:
                return
        if not had:
            raise DataError(f"of {plural(len(self.order), 'picture')} none can be read")
