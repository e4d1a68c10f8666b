"""VTAB-1k (Figure 2, Table 9): a thousand pictures of each task, 800 to learn from and 200 to choose by, then all.

A task's accuracy is that on its whole test part; the score is the mean over the tasks, and that of each group.
"""

import statistics
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from patchwords import settings
from patchwords.data.sources import digits
from patchwords.data.sources.door import place
from patchwords.data.sources.names import printable, short
from patchwords.data.sources.public import PUBLIC
from patchwords.errors import DataError, UsageError
from patchwords.ops import draws
from patchwords.settings import nearest
from patchwords.studies.protocols.transfer import Task, Transfer, deviation, transfer
from patchwords.studies.protocols.wanted import Wanted
from patchwords.studies.shares import divided, drawn, final
from patchwords.training.watch import Log, Watcher

PROTOCOL = "vtab-1k"
RECIPE, RATES = "paper/finetune-vtab", (0.01,)  # Table 4
SEEDS = (0,)
LEARNED, CHOOSING = 800, 200


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """A task as the file lists it; `data` is a path from where the file is, or a known name."""

    data: str
    group: str
    name: str = ""

    def __post_init__(self) -> None:
        if not self.data or not self.group:
            raise UsageError(f"data {self.data!r} and group {self.group!r} must be named")


@dataclass(frozen=True, kw_only=True, slots=True)
class Listing:
    """The file: [[task]] once for each."""

    task: tuple[Entry, ...]


@dataclass(frozen=True, kw_only=True)
class Vtab:
    """The result: what each task came to, the mean of each group, and the mean over all tasks."""

    folder: Path
    model: str
    tasks: dict[str, Transfer]
    members: dict[str, str]  # the group of each task

    @property
    def groups(self) -> dict[str, float]:
        """The mean over the tasks of each group, in the order of the file."""
        return {
            group: statistics.fmean(self.tasks[name].mean for name, of in self.members.items() if of == group)
            for group in dict.fromkeys(self.members.values())
        }

    @property
    def mean(self) -> float:
        """Over the tasks, each counting once."""
        return statistics.fmean(task.mean for task in self.tasks.values())

    @property
    def deviation(self) -> float | None:
        """Of that mean from seed to seed, of the sample (n - 1); none with one seed."""
        seeds = next(iter(self.tasks.values())).accuracies
        return deviation([statistics.fmean(task.accuracies[seed] for task in self.tasks.values()) for seed in seeds])

    def numbers(self) -> dict[str, Any]:
        """All of it for JSON."""
        return {
            "folder": str(self.folder),
            "model": self.model,
            "tasks": [
                {"name": name, "group": self.members[name], **task.numbers()} for name, task in self.tasks.items()
            ],
            "groups": self.groups,
            "mean": self.mean,
            "deviation": self.deviation,
        }


def vtab(
    weights: str,
    tasks: Path,
    *,
    recipe: str | None = None,
    change: Mapping[str, Any] | None = None,
    rates: Sequence[float] | None = None,
    seeds: Sequence[int] | None = None,
    device: str = "auto",
    out: Path | None = None,
    resume: Path | None = None,
    offline: bool = False,
    mirror: str = "",
    watcher: Watcher | None = None,
) -> Vtab:
    """Fine-tunes weights on every task of a TOML file by VTAB-1k's protocol, with seed 0 if no others are given.

    The thousand pictures of a task are the first of an addressed permutation of its training pictures, the same ones
    for every model and seed; a data set with fewer is refused. With one rate, as in Table 4, none is chosen.
    """
    wanted = Wanted(
        protocol=PROTOCOL,
        weights=weights,
        recipe=recipe,
        change=change or {},
        rates=rates,
        seeds=seeds,
        device=device,
        out=out,
        resume=resume,
        offline=offline,
        mirror=mirror,
        watcher=watcher or Log(),
    )
    if ignored := [key for key in settings.dotted(wanted.change) if key.startswith("data.validation")]:
        raise UsageError(f"{ignored[0]} is not for {PROTOCOL} to be told: {CHOOSING} pictures of each task choose")
    entries = read(tasks)
    settled = wanted.settled(RECIPE)
    brought = wanted.brought(settled)
    every = [_task(wanted, entry, name, tasks) for name, entry in entries.items()]
    terms = wanted.terms(settled, brought, [task.final for task in every], rates=RATES, seeds=SEEDS)
    for task in every:
        wanted.look(task.final, settled)
    with wanted.begun(terms, PROTOCOL, place(str(tasks))) as study:
        folder, found = study.folder.path, dict[str, Transfer]()
        for number, task in enumerate(every, start=1):
            chosen = task if len(terms.rates) > 1 else replace(task, develop=None)
            found[task.name] = transfer(study, chosen, folder / f"{number:02}-{short(task.name)}", weights)
        members = {name: entry.group for name, entry in entries.items()}
        result = Vtab(folder=folder, model=weights, tasks=found, members=members)
        study.folder.write_json(f"{PROTOCOL}.json", {"protocol": PROTOCOL, **result.numbers()})
    return result


def read(path: Path) -> dict[str, Entry]:
    """The tasks of a file by name; each has its own, that of its data unless it is given one."""
    try:
        listing = settings.read(tomllib.loads(path.read_text("utf-8")), Listing)
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror}): name a TOML file with [[task]]s") from None
    except (ValueError, UsageError) as error:
        raise UsageError(f"{path} is no list of tasks: {error}") from None
    names = [printable(entry.name or Path(entry.data).stem) for entry in listing.task]
    if not names:
        raise UsageError(f"{path} is no list of tasks: it has none; write [[task]] with data and group")
    if twice := [name for name in names if names.count(name) > 1]:
        raise UsageError(f"{path}: two tasks are called {twice[0]!r}; give each a name of its own")
    return dict(zip(names, listing.task, strict=True))


def _task(wanted: Wanted, entry: Entry, name: str, listing: Path) -> Task:
    """A task's thousand pictures, and its test part."""
    given = _given(entry.data, listing)
    data = replace(final(wanted.opened(given)), name=short(name))
    total = LEARNED + CHOOSING
    if len(data.train) < total:
        raise DataError(
            f"{name} has {len(data.train):,} pictures to learn from, and {PROTOCOL} takes {total:,}: leave it out of "
            f"{listing}, or measure it by --protocol table-5"
        )
    numbers = draws.permutation(PROTOCOL, 0, of=len(data.train))[:total]
    develop = divided(data, numbers[:LEARNED], numbers[LEARNED:])
    return Task(name=name, called=place(given), develop=develop, final=drawn(data, numbers))


def _given(word: str, listing: Path) -> str:
    """What opens the data: a path is one from where the file is."""
    path, known = (listing.parent / Path(word).expanduser()).absolute(), (digits.NAME, *PUBLIC)
    if word != digits.NAME and (path.exists() or "{" in path.name):
        return str(path)
    if word in known:
        return word
    near = nearest(word, known)
    raise UsageError(f"{listing}: data {word!r} is no path from {listing.parent}, and no known name; {near}")
