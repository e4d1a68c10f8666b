"""What makes a resumed run the same run: its settings and its data; and what may change, but is said."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from patchwords import settings
from patchwords.data.sources.source import Data
from patchwords.errors import DataError, ModelError, UsageError
from patchwords.training import recipe as recipes
from patchwords.training.guides import placed
from patchwords.training.recipe import BITS, HOW, Recipe


def unchanged(
    stored: Recipe, given: str | Path | Recipe | None, changes: Mapping[str, Any], known: Collection[str] = ()
) -> Recipe:
    """The recipe of a run; what decides its result cannot be changed any more.

    The `known` settings name something that is told by its contents, wherever it lies now (`same_guide`).
    """
    stored, wanted = placed(stored), placed(recipes.read(given or stored, changes))
    if wanted.batch == "auto":
        wanted = replace(wanted, batch=stored.batch)  # what it became
    before, after = settings.dotted(settings.write(stored)), settings.dotted(settings.write(wanted))
    free = {*HOW, *BITS, *known}
    changed = [key for key in before.keys() | after.keys() if before.get(key) != after.get(key) and key not in free]
    if changed:
        said = "; ".join(
            f"{key} was {before.get(key)!r} and would be {after.get(key)!r}" for key in sorted(changed)[:6]
        )
        raise UsageError(
            f"a resumed run keeps its settings: {said}. Leave these out, or start a new run without --resume"
        )
    return wanted


def same_data(data: Data, before: Mapping[str, Any]) -> None:
    """Refuses other pictures than those that data.json tells of."""
    if data.digest() == before["digest"]:
        return
    then = {name for names in before["names"].values() for name in names}
    now = {source.name(index) for source in data.splits.values() for index in range(len(source))}
    differ = [f"{name} is gone" for name in sorted(then - now)] + [f"{name} is new" for name in sorted(now - then)]
    said = ", ".join(differ[:5]) or "the sizes of pictures, their order or their split"
    raise DataError(
        f"the data is not what the run began with ({said}): bring it back, or start a new run without --resume"
    )


def same_guide(key: str, name: str, now: str, before: str) -> None:
    """Refuses to learn on from another model than the run began with."""
    if now != before:
        raise ModelError(
            f"{key} {name} is not the model that the run began with: bring that one back (where it lies elsewhere now, "
            f"say so with --set {key}=PATH), or start a new run without --resume"
        )


def how(stored: Recipe, wanted: Recipe) -> list[str]:
    """A sentence for each setting that changes how a result is computed, and so its last bits."""
    before, after = settings.dotted(settings.write(stored)), settings.dotted(settings.write(wanted))
    changed = [key for key in BITS if before[key] != after[key] and not (key == "micro" and not after[key])]
    return [f"{key} is {after[key]} now and was {before[key]} before: the last bits may differ" for key in changed]


def same_place(changed: Sequence[str], deterministic: bool) -> Sequence[str]:
    """What is otherwise than it was, to be said; refused where the same bits are wanted."""
    if changed and deterministic:
        raise UsageError(f"{'; '.join(changed)}. Go on as the run began, or leave out --deterministic")
    return changed
