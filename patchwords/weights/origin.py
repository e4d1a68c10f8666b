"""The run that a model came out of: its data, and which pictures of it were for what."""

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from patchwords.data.sources.source import Data, Joined, Source, Subset
from patchwords.errors import ModelError

RESULT, RECIPE, CHECKPOINTS = "model.safetensors", "recipe.toml", "checkpoints"  # of a run


@dataclass(frozen=True)
class Origin:
    """A run's folder, what finds its data again, the command that goes on with it, and who divided the data."""

    folder: Path
    data: str
    again: str
    protocol: bool = False  # which may have left out pictures; a recipe uses all of them

    def divided(self, whole: Data) -> Data | None:
        """Undivided data as the run had it, whoever divided it, its recipe or a protocol; None if it is other data.

        The run wrote down the names of all its pictures: nothing is concluded from settings.
        """
        told = _table(self.folder, "data.json", "names", "notes", "digest")
        if (parts := _parts(whole, told["names"], self.protocol)) is None:
            return None
        found = replace(
            whole, train=parts["train"], val=parts["val"], test=parts.get("test"), notes=tuple(told["notes"])
        )
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


def _table(folder: Path, name: str, *needed: str) -> dict[str, Any]:
    """A file of the run, in which these keys must be."""
    try:
        table: dict[str, Any] = json.loads((folder / name).read_text("utf-8"))
        return {**table, **{key: table[key] for key in needed}}
    except (OSError, ValueError, KeyError, TypeError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise ModelError(
            f"{name} of the run in {folder} cannot be read ({reason}): copy its {RESULT} elsewhere, and give that"
        ) from None
