"""The pictures of a run: through the one door, with what a person should know of them, and looked at first."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from patchwords.data.check.check import check
from patchwords.data.sources.door import open_data, open_pictures
from patchwords.data.sources.source import Data
from patchwords.errors import DataError, UsageError
from patchwords.training.recipe import Recipe
from patchwords.training.watch import Watcher


def opened(given: str | Data, recipe: Recipe, watcher: Watcher, *, offline: bool, mirror: str) -> Data:
    """The data set, with what a person should know of it."""
    data = given if isinstance(given, Data) else _brought(given or "digits", recipe, watcher, offline, mirror)
    total = sum(map(len, data.splits.values()))
    counts = ", ".join(f"{len(source):,} to {split}" for split, source in data.splits.items())
    classes = f" of {len(data.classes)} classes" if recipe.objective.classes(len(data.classes)) else ""
    watcher.note(f"{data.name}: {total:,} pictures{classes} ({counts})")
    for note in data.notes:
        watcher.note(note)
    return data


def _brought(given: str, recipe: Recipe, watcher: Watcher, offline: bool, mirror: str) -> Data:
    fetching = partial(watcher.working, f"downloading {given}")
    opens = open_data if recipe.objective.classes(2) else open_pictures
    return opens(given, split=recipe.data.validation, offline=offline, mirror=mirror, progress=fetching)


@contextmanager
def sought(what: str, again: str) -> Iterator[None]:
    """What is not found where it was is asked for: `again` is the command that names its new place."""
    try:
        yield
    except UsageError as error:
        raise UsageError(f"{what} is not found: {error}; say where it is now, `{again}`") from None


def look(data: Data, recipe: Recipe, watcher: Watcher) -> None:
    """What is wrong with the pictures, as far as that is quickly found, before the first step."""
    findings = check(
        data, depth="quick", progress=partial(watcher.working, "looking at the pictures"), note=watcher.note
    )
    for sentence in findings.sentences():
        watcher.note(sentence)
    total = len(data.train) + len(data.val)
    for finding in findings.errors:
        if finding.kind == "unreadable" and finding.count > recipe.data.broken * total:
            raise DataError(
                f"{finding.count} of {total} pictures cannot be read, more than the allowed share of "
                f"{recipe.data.broken:g}: {finding.examples()}; mend or remove them (`patchwords check` lists all), "
                "or set data.broken"
            )
