"""Where the figures of one model are drawn: who sits for them, which pictures there are, and what cannot be drawn."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Protocol

import torch

from patchwords.data.broken import Broken
from patchwords.data.sources.listing import is_picture
from patchwords.data.sources.names import printable
from patchwords.errors import UsageError
from patchwords.inspection.distance import PICTURES
from patchwords.inspection.exhibits.distance import distance
from patchwords.inspection.exhibits.exhibit import Exhibit
from patchwords.inspection.exhibits.filters import filters
from patchwords.inspection.exhibits.patch import Query, asked, patch
from patchwords.inspection.exhibits.positions import positions
from patchwords.inspection.exhibits.rollout import rollout
from patchwords.inspection.pictures import Album, Shot, Stock, files
from patchwords.inspection.sight import sight
from patchwords.inspection.viewer import Viewer
from patchwords.inspection.words import alone
from patchwords.settings import at_least, nearest
from patchwords.weights.subject import Subject

PICTURED = ("distance", "rollout", "patch")
NAMES = ("filters", "positions", *PICTURED)


class Watcher(Protocol):
    """Who hears how far it is."""

    def note(self, remark: str) -> None: ...

    def working(self, what: str, done: int, total: int) -> None: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Wish:
    """Which figures are wanted, of how many pictures, and which patch of which picture is asked."""

    only: tuple[str, ...] = NAMES
    pictures: int = PICTURES  # for the distance
    count: int = 8  # of maps
    query: Query = field(default_factory=Query)
    picture: str = "1"  # a file, or the number of a map

    def __post_init__(self) -> None:
        at_least(1, pictures=self.pictures, count=self.count)
        if wrong := [name for name in self.only if name not in NAMES]:
            raise UsageError(f"there is no figure {wrong[0]!r}; {nearest(wrong[0], NAMES)}")

    @property
    def pictured(self) -> tuple[str, ...]:
        """The wanted figures for which there must be pictures; a patch may have a file of its own."""
        own = () if self.picture.isdecimal() else ("patch",)
        return tuple(name for name in self.only if name in PICTURED and name not in own)


class Studio:
    """One model, perhaps another beside it, and the pictures that both are shown."""

    def __init__(self, subject: Subject, stock: Stock, wish: Wish, device: torch.device, watcher: Watcher):
        self.stock, self.wish, self.device, self.watcher = stock, wish, device, watcher
        self.broken = Broken(1.0, len(stock.source) if stock.source else 0, watcher.note)
        self.viewer = self.view(subject)

    def view(self, subject: Subject) -> Viewer:
        """A model on the device, with the pictures as it takes them."""
        subject.model.to(self.device)
        source = self.stock.source
        album = Album(source, subject.card, self.broken) if source else None
        return Viewer(subject=subject, device=self.device, album=album)

    def check(self) -> None:
        """Refuses what was asked wrongly, before the long work."""
        if "patch" in self.wish.only and not self.lack("patch"):
            asked(self.wish.query, self.viewer)
            self.asked_picture  # noqa: B018

    def lack(self, name: str) -> str:
        """Why a figure cannot be drawn: in the model's words, or since there are no pictures."""
        unseen = name in self.wish.pictured and self.stock.source is None
        return lack(name, self.viewer) or (self.stock.reason if unseen else "")

    def draw(self, name: str, against: Subject | None) -> Exhibit:
        match name:
            case "filters":
                return filters(self.viewer)
            case "positions":
                return positions(self.viewer)
            case "distance":
                return self._distance(against)
            case "rollout":
                return rollout(self.viewer, self.shots, self._progress("attention maps"))
            case _:
                return patch(self.viewer, self.asked_picture, self.wish.query)

    def _distance(self, against: Subject | None) -> Exhibit:
        """Of the model, and of the other where that has any."""
        progress = self._progress("attention distance")
        other = self.view(against) if against else None
        if other is None or not (words := lack("distance", other)):
            return distance([self.viewer, *filter(None, [other])], self.wish.pictures, progress)
        drawn = distance([self.viewer], self.wish.pictures, progress)
        remarks = (*drawn.remarks, alone(other.subject.name, words))
        return replace(drawn, remarks=remarks, numbers={**drawn.numbers, "missing": {"against": words}})

    def _progress(self, what: str) -> Callable[[int, int], None]:
        return lambda done, total: self.watcher.working(what, done, total)

    @cached_property
    def shots(self) -> list[Shot]:
        """The pictures of the maps."""
        assert self.viewer.album, "asked for pictures where there are none"
        return self.viewer.album.shots(self.wish.count)

    @cached_property
    def asked_picture(self) -> Shot:
        """The one whose patch is asked."""
        word = self.wish.picture
        if not word.isdecimal():
            return self._read(word)
        if not 1 <= int(word) <= len(self.shots):
            raise UsageError(
                f"--picture {word}: the pictures shown are numbered 1 to {len(self.shots)}; or give a file"
            )
        return self.shots[int(word) - 1]

    def _read(self, word: str) -> Shot:
        path = Path(word).expanduser()
        if not path.is_file() or not is_picture(path.name):
            given = printable(word) or "''"
            raise UsageError(
                f"--picture {given} is no picture file: give one, or the number of a picture that is shown"
            )
        album = Album(files(path.parent, [path.name]), self.viewer.subject.card, Broken(1.0, 1, self.watcher.note))
        return album.shots(1)[0]


def lack(name: str, viewer: Viewer) -> str:
    """Why this model cannot have this figure, in its own words; nothing where it can."""
    model, config = viewer.model, viewer.subject.card.model
    blank = torch.zeros(1, config.channels, *config.image, device=viewer.device)
    try:
        match name:
            case "positions":
                model.positions()
            case "rollout" if model.shows != "gaze":
                sight(model, blank)
            case "distance" | "patch" if model.shows != "gaze":
                model.gaze(blank)
    except UsageError as error:
        return str(error)
    return ""
