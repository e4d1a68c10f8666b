"""Section 4.1's fine-tuning, measured: a rate is chosen on development pictures, then all is learned, once a seed."""

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchwords.data.sources.source import Data
from patchwords.errors import NonFiniteError
from patchwords.studies.below import Numbers
from patchwords.studies.protocols.study import Study

ANEW = "start a new study with lower rates"


@dataclass(frozen=True, kw_only=True)
class Task:
    """A data set, divided: while a rate is chosen `develop` is all there is, and `final` judges at the very end."""

    name: str
    called: str  # what finds it again: a path or a name
    develop: Data | None  # none where there is nothing to choose
    final: Data


@dataclass(frozen=True, kw_only=True)
class Transfer:
    """What fine-tuning came to: accuracies as fractions, by rate on the development pictures, by seed at the end."""

    folder: Path
    data: str
    model: str
    pictures: dict[str, int]  # to learn from, to choose by (among these), to be judged by
    rates: dict[float, float]  # empty where there was nothing to choose
    diverged: tuple[float, ...]  # rates with which the loss became infinite
    rate: float
    accuracies: dict[int, float]

    @property
    def mean(self) -> float:
        return statistics.fmean(self.accuracies.values())

    @property
    def deviation(self) -> float | None:
        """Of the sample (n - 1); none with one seed."""
        return deviation(list(self.accuracies.values()))

    def numbers(self) -> dict[str, Any]:
        """All of it for JSON, whose keys are texts."""
        return {
            "folder": str(self.folder),
            "data": self.data,
            "model": self.model,
            "pictures": self.pictures,
            "rates": {worded(rate): accuracy for rate, accuracy in self.rates.items()},
            "diverged": list(self.diverged),
            "rate": self.rate,
            "accuracies": {str(seed): accuracy for seed, accuracy in self.accuracies.items()},
            "mean": self.mean,
            "deviation": self.deviation,
        }


def transfer(study: Study, task: Task, folder: Path, model: str) -> Transfer:
    """Both phases below a folder; with one rate there is nothing to choose, and the first is left out."""
    study.watcher.note(_said(task))
    swept = _sweep(study, task, task.develop, folder) if task.develop else {}
    rate = _best(swept) if swept else study.terms.rates[0]
    accuracies = dict(_seeds(study, task, folder, rate))
    return Transfer(
        folder=folder,
        data=task.name,
        model=model,
        pictures={
            "learned": len(task.final.train),
            "chosen_by": len(task.develop.val) if task.develop else 0,
            "judged": len(task.final.val),
        },
        rates={tried: numbers["accuracy"] for tried, numbers in swept.items()},
        diverged=tuple(tried for tried in study.terms.rates if swept and tried not in swept),
        rate=rate,
        accuracies=accuracies,
    )


def _sweep(study: Study, task: Task, develop: Data, folder: Path) -> dict[float, Numbers]:
    """The scores of each rate on the development pictures; a rate with which the loss became infinite has none."""
    rates, seed, scores = study.terms.rates, study.terms.seeds[0], dict[float, Numbers]()
    for number, rate in enumerate(rates, start=1):
        place = folder / f"dev-lr-{worded(rate)}"
        study.watcher.note(f"{task.name}: rate {worded(rate)}, {number} of {len(rates)}")
        try:
            scores[rate] = study.trained(place, develop, task.called, rate=rate, seed=seed)
            study.watcher.note(f"{task.name}: {_share(scores[rate], develop)} with rate {worded(rate)}")
        except NonFiniteError as error:  # which is an answer too
            study.watcher.note(f"{task.name}: rate {worded(rate)} is too high: {_what(error)}")
    if not scores:
        raise NonFiniteError(f"{task.name}: all rates are too high ({', '.join(map(worded, rates))}): {ANEW}")
    return scores


def _best(scores: dict[float, Numbers]) -> float:
    """The highest accuracy; among equals the lowest loss, then the lowest rate."""
    return min(scores, key=lambda rate: (-scores[rate]["accuracy"], scores[rate]["loss"], rate))


def _seeds(study: Study, task: Task, folder: Path, rate: float) -> Iterator[tuple[int, float]]:
    seeds = study.terms.seeds
    for number, seed in enumerate(seeds, start=1):
        study.watcher.note(f"{task.name}: rate {worded(rate)}, seed {seed}, {number} of {len(seeds)}")
        place = folder / f"seed-{seed}"
        try:
            scores = study.trained(place, task.final, task.called, rate=rate, seed=seed)
        except NonFiniteError as error:
            said = f"{task.name}: rate {worded(rate)} is too high for seed {seed}: {_what(error)}"
            raise NonFiniteError(f"{said}; {ANEW}") from None
        study.watcher.note(f"{task.name}: {_share(scores, task.final)} with seed {seed}")
        yield seed, scores["accuracy"]


def _what(error: NonFiniteError) -> str:
    """What happened; its advice is for a training alone."""
    return str(error).partition(";")[0]


def _said(task: Task) -> str:
    """How many pictures are for what."""
    chosen = f"{len(task.develop.val):,} of them choose the rate" if task.develop else "no rate is to be chosen"
    learned, judging = len(task.final.train), len(task.final.val)
    return f"{task.name}: {learned:,} pictures to learn from, {chosen}; {judging:,} judge, once, at the end"


def _share(scores: Numbers, data: Data) -> str:
    return f"{100 * scores['accuracy']:.2f} % of {len(data.val):,} pictures"


def worded(rate: float) -> str:
    return f"{rate:.12g}"


def deviation(values: Sequence[float]) -> float | None:
    """Of the sample (n - 1); of one value there is none."""
    return statistics.stdev(values) if len(values) > 1 else None
