"""A study: many trainings below one folder, one after the other; stopped anywhere, it goes on and repeats none."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from patchwords import settings
from patchwords.data.sources.source import Data
from patchwords.errors import UsageError
from patchwords.studies import below
from patchwords.studies.below import Numbers
from patchwords.training import recipe as recipes
from patchwords.training.recipe import Recipe
from patchwords.training.run.folder import RunFolder
from patchwords.training.signals import StoppedError
from patchwords.training.watch import Watcher

FILE = "study.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class Terms:
    """What a study was begun with, and goes on with."""

    protocol: str
    recipe: Recipe  # of every training, but for the rate and the seed
    weights: str  # the SHA-256 of the model to fine-tune
    data: tuple[str, ...]  # the SHA-256 of every data set and its parts
    rates: tuple[float, ...]
    seeds: tuple[int, ...]

    def __post_init__(self) -> None:
        if not _each_once(self.rates) or not all(0 < rate < math.inf for rate in self.rates):
            raise UsageError(f"rates {list(self.rates)}: give one or more above 0, each once")
        if not _each_once(self.seeds) or min(self.seeds) < 0:
            raise UsageError(f"seeds {list(self.seeds)}: give one or more from 0 on, each once")


def _each_once(values: Sequence[float]) -> bool:
    return 0 < len(values) == len(set(values))


def stored(folder: Path, protocol: str) -> Terms:
    """The terms of a study that was begun in this folder."""
    path = folder / FILE
    if not path.is_file():
        raise UsageError(f"{folder} is no study to resume: there is no {FILE} in it; start anew with --out")
    try:
        terms = settings.read(json.loads(path.read_text("utf-8")), Terms)
    except (ValueError, UsageError) as error:
        raise UsageError(f"{path} cannot be read ({error}): bring it back, or start anew with --out") from None
    if terms.protocol != protocol:
        raise UsageError(f"{folder} holds a study by --protocol {terms.protocol}, not {protocol}: go on with that")
    return terms


def compare(before: Terms, now: Terms) -> None:
    """Refuses other rates, seeds, weights or data; the recipe was compared where it was read."""
    differ = [
        f"{name} were {list(getattr(before, name))} and would be {list(getattr(now, name))}"
        for name in ("rates", "seeds")
        if getattr(before, name) != getattr(now, name)
    ]
    differ += ["the weights are not what they were"] * (before.weights != now.weights)
    differ += ["the data is not what it was"] * (before.data != now.data)
    if differ:
        raise UsageError(f"a resumed study keeps its terms: {'; '.join(differ)}. Bring these back, or start a new one")


@dataclass
class Study:
    """The folder of a study, held by this process, and what its trainings have in common."""

    folder: RunFolder
    terms: Terms
    device: str
    watcher: Watcher
    again: str  # the command that goes on
    signal: int = field(init=False, default=0)  # heard at the end of a training, when there was nothing to stop

    def trained(self, place: Path, data: Data, called: str, *, rate: float, seed: int) -> Numbers:
        """The scores of one training: read where it has ended, and else it is begun or gone on with."""
        below.tell(place, called)
        if not below.has_ended(place):
            if self.signal:
                raise StoppedError(self.signal, f"stopped before {place.name}, and saved; `{self.again}` goes on")
            self.signal = below.learn(
                place,
                data,
                recipes.read(self.terms.recipe, {"optimizer.lr": rate, "seed": seed}),
                called=called,
                device=self.device,
                watcher=self.watcher,
                again=self.again,
            )
        return below.ended(place)
