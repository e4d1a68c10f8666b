"""What a person wants of a study, what it is begun with, and what it therefore goes on with."""

import json
import shlex
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from patchwords import settings
from patchwords.data.sources.digits import NAME as DIGITS
from patchwords.data.sources.door import open_data, place
from patchwords.data.sources.source import Data
from patchwords.errors import DataError, ModelError, UsageError
from patchwords.studies import given
from patchwords.studies import grid as grids
from patchwords.studies.experiments.transfer import Transfer
from patchwords.studies.grid import Grid, Member
from patchwords.studies.ground import Ground
from patchwords.studies.shares import final, halves
from patchwords.training import recipe as recipes
from patchwords.training.pictures import sought
from patchwords.training.recipe import Recipe
from patchwords.training.watch import Watcher
from patchwords.weights import store
from patchwords.weights.card import Card
from patchwords.weights.subject import RANDOM, Subject, open_subject

FILE = "study.json"
GIVEN = "weights"  # what tables call the model of a file

# What a study finds again where it was, and the words that tell a new place of it.
PLACES = {
    "data": ("the data of the study", "DATA"),
    "target": ("the target of the study", "--target DATA"),
    "weights": ("the model that the study asks about", "--weights FILE"),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Terms:
    """What a study was begun with; data is told by names, labels and sizes, weights by their contents."""

    study: str
    grid: Grid
    recipe: Recipe  # that the grid names, as it was then
    data: str  # what finds it
    target: str
    weights: str
    digests: dict[str, str]  # SHA-256 of each of these that there is


@dataclass(frozen=True, kw_only=True)
class Wish:
    """The arguments as they were given."""

    study: str
    data: str
    target: str
    weights: str
    grid: str
    change: Mapping[str, Any]
    seeds: Sequence[int] | None
    offline: bool
    mirror: str
    watcher: Watcher = field(repr=False)
    again: Mapping[str, str] = field(default_factory=dict)  # of a resumed study: the command that tells a new place

    def __post_init__(self) -> None:
        if self.weights and self.study != Transfer.name:
            raise UsageError(
                f"--weights {self.weights} does not apply to {self.study}, which trains from scratch: "
                f"{Transfer.name} is the study of what weights are worth"
            )
        if self.weights and self.target:
            raise UsageError(f"--target {self.target} is not needed with --weights: all of the data judges them")

    def begun(self) -> tuple[Terms, Ground]:
        """The terms of a new study, and what it stands on."""
        data = self._opened("data")
        grid = grids.read(self.grid or grids.fitting(data), self.study, self.change)
        if self.seeds is not None:
            grid = replace(grid, seeds=tuple(self.seeds))
        return self._stood(data, grid, recipes.read(grid.recipe))

    def resumed(self, folder: Path) -> tuple[Terms, Ground]:
        """Those of a study that was begun, which are the same now."""
        before = stored(folder)
        refused = {"--grid": self.grid, "--set": self.change, "--seeds": self.seeds}
        if wrong := [option for option, value in refused.items() if value]:
            raise UsageError(f"{wrong[0]} does not apply to --resume: a resumed study keeps its terms; start a new one")
        if before.study != self.study:
            raise UsageError(f"{folder} holds the study {before.study}, not {self.study}: go on with that")
        known = {key: getattr(before, key) for key in PLACES if not getattr(self, key)}
        wish = replace(self, **known, again={key: self._again(key, folder) for key in known})
        terms, ground = wish._stood(wish._opened("data"), before.grid, before.recipe)
        keys = before.digests | terms.digests
        if differ := [key for key in keys if before.digests.get(key) != terms.digests.get(key)]:
            said = " and the ".join(differ)
            raise DataError(f"the {said} of {folder} are not what they were: bring them back, or start a new study")
        return terms, ground

    def _again(self, asked: str, folder: Path) -> str:
        """The command that goes on and tells a new place of one thing, beside those that were told already."""
        told = []
        for key, (_, words) in PLACES.items():
            *option, _ = words.split()
            if given := getattr(self, key):
                told.append(shlex.join((*option, given)))
            elif key == asked:
                told.append(words)
        return " ".join(("patchwords study", self.study, *told, "--resume", shlex.quote(str(folder))))

    def _sought(self, key: str) -> AbstractContextManager[None]:
        """Asks for a new place of what a resumed study does not find where it was."""
        return sought(PLACES[key][0], self.again[key]) if key in self.again else nullcontext()

    def _opened(self, key: str) -> Data:
        """What may be learned from, and what judges at the end."""
        given = getattr(self, key) or DIGITS
        fetching = partial(self.watcher.working, f"downloading {given}")
        with self._sought(key):
            found = final(open_data(given, split=None, offline=self.offline, mirror=self.mirror, progress=fetching))
        for note in found.notes:
            self.watcher.note(note)
        return found

    def _stood(self, data: Data, grid: Grid, recipe: Recipe) -> tuple[Terms, Ground]:
        """Which pictures are learned from first, and which judge."""
        called, digests = place(self.data or DIGITS), {"data": data.digest()}
        first, target, target_called = data, data, called
        if self.weights:
            subject = self._subject()
            digests["weights"] = subject.digest
            if GIVEN not in grid.models:
                grid = replace(grid, models={**grid.models, GIVEN: self._member(subject.card)})
                grid = settings.change(grid, {f"study.{Transfer.name}.model": GIVEN})
        elif self.target:
            target, target_called = self._opened("target"), place(self.target)
            digests["target"] = target.digest()
            if digests["target"] == digests["data"]:
                raise UsageError(f"--target {self.target} is the data itself, which cannot judge what it has taught")
        else:
            first, target = halves(data)
            self.watcher.note(
                f"{first.name.partition(',')[0]}: learned from first are {', '.join(first.classes)}; "
                f"what was learned is judged by {', '.join(target.classes)}"
            )
        terms = Terms(
            study=self.study,
            grid=grid,
            recipe=recipe,
            data=called,
            target=target_called if self.target else "",
            weights=place(self.weights) if self.weights else "",
            digests=digests,
        )
        ground = Ground(
            first=first,
            first_from=called,
            target=target,
            target_from=target_called,
            grid=grid,
            recipe=recipe,
            weights=terms.weights,
        )
        return terms, ground

    def _member(self, card: Card) -> Member:
        """The model of the weights, at the size that they have unless another was asked for."""
        found = given.member(card, self.weights)
        size = self.change.get("both.image")
        return found if size is None else replace(found, both={**found.both, "image": size})

    def _subject(self) -> Subject:
        fetching = partial(self.watcher.working, f"downloading {self.weights}")
        fetch = partial(store.fetch, offline=self.offline, mirror=self.mirror, progress=fetching)
        with self._sought("weights"):
            subject = open_subject(self.weights, fetch=fetch)
        if subject.card.source == RANDOM:
            raise ModelError(f"{self.weights} is a name alone, and {self.study} asks what weights are worth: give some")
        for note in subject.notes:
            self.watcher.note(note)
        return subject


def stored(folder: Path) -> Terms:
    """The terms of the study in a folder."""
    path = folder / FILE
    if not path.is_file():
        raise UsageError(f"{folder} is no study to resume: there is no {FILE} in it; start anew with --out")
    try:
        table = json.loads(path.read_text("utf-8"))
        return settings.read(table["terms"], Terms)
    except (ValueError, KeyError, TypeError, UsageError) as error:
        raise UsageError(f"{path} cannot be read ({error}): bring it back, or start anew with --out") from None
