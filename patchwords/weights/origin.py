"""The run that a model came out of: its data, and which pictures of it were for what."""

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from patchwords.data.sources.source import Data, Joined, Source, Subset
from patchwords.errors import ModelError

RESULT, RECIPE, CHECKPOINTS = "model.safetensors", "recipe.toml", "checkpoints"  # of a run
CLASSES = "classes.json"
Kind = TypeVar("Kind")


@dataclass(frozen=True)
class Origin:
    """A run's folder, what finds its data again, the command that goes on with it, and who divided the data."""

    folder: Path
    data: str
    again: str
    protocol: bool = False  # or a study, which may have left out pictures and classes; a recipe uses all of them

    @property
    def labelled(self) -> bool:
        """Whether there was more than one class to learn from: pictures that nobody told apart are all of one."""
        return len(_stored(self.folder, CLASSES, list)) > 1

    def divided(self, whole: Data) -> Data | None:
        """Undivided data as the run had it, whoever divided it: its recipe, a protocol or a study; None if it is other.

        The run wrote down the names of all its pictures and classes: nothing is concluded from settings.
        """
        told = _table(self.folder, "data.json", "name", "names", "notes", "digest")
        if (parts := _parts(whole, told["names"], self.protocol)) is None:
            return None
        found = replace(
            whole, train=parts["train"], val=parts["val"], test=parts.get("test"), notes=tuple(told["notes"])
        )
        classes = tuple(_stored(self.folder, CLASSES, list))
        if self.protocol and set(classes) < set(whole.classes):
            found = replace(_within(found, classes), name=told["name"])
        return found if found.digest() == told["digest"] else None


def origin_of(path: Path) -> Origin | None:
    """The run that this folder or file is the result of, or a checkpoint of."""
    if (folder := _run(path)) is None:
        return None
    run, usual = _table(folder, "run.json", "data"), f"patchwords train --resume {shlex.quote(str(folder))}"
    return Origin(folder, str(run["data"]), str(run.get("again", usual)), "again" in run)


def refuse_without_result(path: Path) -> None:
    """Says what is there instead in a run folder, or in one with the runs of a protocol; others may hold anything."""
    if not path.is_dir() or (path / RESULT).is_file():
        return
    if origin := origin_of(path):
        raise ModelError(
            f"the run in {path} has no result yet: finish it with `{origin.again}`, "
            f"or give one of its checkpoints (a model.safetensors below {path / 'checkpoints'})"
        )
    if runs := sorted(found.parent for level in ("*", "*/*") for found in path.glob(f"{level}/recipe.toml")):
        raise ModelError(f"{path} is no run itself but holds {len(runs)}: give one of them, such as {runs[-1]}")


def refuse_state(path: Path) -> None:
    """Says of a file in a run's checkpoint that it holds no model but what the training goes on with."""
    if path.is_file() and path.resolve().parent.parent.name == CHECKPOINTS and (origin := origin_of(path)):
        raise ModelError(
            f"{path} is no model but part of the state of the run in {origin.folder}: give {RESULT} beside it; "
            f"the state is for `{origin.again}`"
        )


def _run(path: Path) -> Path | None:
    """The folder of that run; another file that lies there is not its result."""
    folder = path if path.is_dir() else path.parent
    above = folder.resolve().parent
    if above.name == CHECKPOINTS and (above.parent / RECIPE).is_file():
        return above.parent
    known = path.is_dir() or (path.is_file() and path.name == RESULT)
    return folder if known and (folder / RECIPE).is_file() else None


def _parts(whole: Data, names: Mapping[str, Sequence[str]], some: bool) -> dict[str, Source] | None:
    """The named pictures of each part, in that order; None if one is not there, or if others are but for `some`."""
    sources = {id(source): source for source in whole.splits.values()}  # one may stand for two parts
    pool = Joined(list(sources.values()))
    places = {pool.name(index): index for index in range(len(pool))}
    wanted = {name for part in names.values() for name in part}
    if not (wanted <= places.keys() if some else wanted == places.keys()):
        return None
    return {part: Subset(pool, [places[name] for name in own]) for part, own in names.items()}


def _within(data: Data, classes: tuple[str, ...]) -> Data:
    """The same pictures, with labels that count some of the classes alone; those of others count as none of them."""
    numbers = np.array([classes.index(name) if name in classes else len(classes) for name in data.classes])
    parts = {part: Subset(source, range(len(source))) for part, source in data.splits.items()}
    for source in parts.values():
        source.labels = numbers[source.labels]
    return replace(data, classes=classes, train=parts["train"], val=parts["val"], test=parts.get("test"))


def _table(folder: Path, name: str, *needed: str) -> dict[str, Any]:
    """A file of the run, in which these keys must be."""
    table = _stored(folder, name, dict)
    if missing := [key for key in needed if key not in table]:
        raise _unreadable(folder, name, f"it does not say {missing[0]}")
    return table


def _stored(folder: Path, name: str, kind: type[Kind]) -> Kind:
    """What a file of the run holds, which must be of this kind."""
    try:
        value = json.loads((folder / name).read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise _unreadable(folder, name, f"{type(error).__name__}: {error}") from None
    if not isinstance(value, kind):
        raise _unreadable(folder, name, f"it is no {kind.__name__}")
    return value


def _unreadable(folder: Path, name: str, reason: str) -> ModelError:
    return ModelError(
        f"{name} of the run in {folder} cannot be read ({reason}): copy its {RESULT} elsewhere, and give that"
    )
