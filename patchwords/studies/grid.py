"""The grid of a study: which models take part, how they learn and are fine-tuned, and what each study varies."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from importlib import resources
from pathlib import Path
from typing import Any

from patchwords import settings
from patchwords.data.sources.source import Data
from patchwords.errors import UsageError
from patchwords.settings import at_least, check, whole

Table = dict[str, Any]
# Every training is judged once, after its last step: nothing is chosen by the pictures that judge.
ONCE = {"evaluate": "100%", "best": "last", "patience": 0}
OWN = (*ONCE, "seed", "weights", "model")  # what no table says: a study does


@dataclass(frozen=True, kw_only=True, slots=True)
class Member:
    """A model that takes part, and what its trainings have otherwise than those of all."""

    model: str
    both: Table = field(default_factory=dict)
    learn: Table = field(default_factory=dict)
    tune: Table = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Grid:
    """Changes of recipes are tables, as they stand in a recipe."""

    recipe: str  # of every training
    models: dict[str, Member]  # by what tables and figures call them
    both: Table = field(default_factory=dict)
    learn: Table = field(default_factory=dict)  # from scratch, on the first pictures
    tune: Table = field(default_factory=dict)  # what has learned already, on the pictures that it is judged by
    mask: Table = field(default_factory=dict)  # masked patch prediction, over `learn`
    shots: int = 5  # labelled pictures of each class that judge frozen features
    seeds: tuple[int, ...] = (0,)
    study: dict[str, Table]  # what each of them varies, by its name

    def __post_init__(self) -> None:
        check(self)
        at_least(1, shots=self.shots, seeds=len(self.seeds))
        whole(seeds=self.seeds)
        at_least(0, seed=min(self.seeds))
        members = [table for member in self.models.values() for table in (member.both, member.learn, member.tune)]
        for table in (self.both, self.learn, self.tune, self.mask, *members):
            refuse_own(table)
        if len(set(self.seeds)) < len(self.seeds):
            raise UsageError(f"seeds {list(self.seeds)}: give each once")

    def member(self, name: str) -> Member:
        if name not in self.models:
            raise UsageError(f"model {name!r} takes no part; {settings.nearest(name, self.models)}")
        return self.models[name]


def refuse_own(table: Table) -> None:
    """Refuses what no table says."""
    if wrong := [key for key in OWN if key in table]:
        raise UsageError(f"{wrong[0]} = {table[wrong[0]]!r} is not for a grid to say: the study sets it")


def names() -> list[str]:
    """The grids of the package."""
    found = resources.files("patchwords.studies.grids").iterdir()
    return sorted(entry.name.removesuffix(".toml") for entry in found if entry.name.endswith(".toml"))


def fitting(data: Data) -> str:
    """The grid for pictures of this kind: files are photos, arrays are told apart by their size."""
    first = data.train.picture(0)
    if isinstance(first, bytes):
        return "photos"
    return "digits" if max(first.shape[:2]) <= 16 else "small"


def read(given: str, study: str, changes: Mapping[str, Any]) -> Grid:
    """A grid by its name in the package or by its file; what the study varies, or the grid has not, is the study's."""
    grid = settings.read(_table(given), Grid)
    own = {part.name for part in fields(Grid)}
    varied = grid.study.get(study, {})  # data-size has `models` too, and names them alone

    def placed(key: str) -> str:
        return key if key.partition(".")[0] in own and key not in varied else f"study.{study}.{key}"

    return settings.change(grid, {placed(key): value for key, value in changes.items()})


def _table(given: str) -> Table:
    place = resources.files("patchwords.studies.grids").joinpath(f"{given}.toml") if given in names() else Path(given)
    if not place.is_file():
        raise UsageError(f"grid {given!r} is neither a file nor known; {settings.nearest(given, names())}")
    try:
        return tomllib.loads(place.read_text("utf-8"))
    except (ValueError, OSError) as error:
        raise UsageError(f"grid {given} cannot be read as TOML: {error}") from None
