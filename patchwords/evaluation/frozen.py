"""What a model's features are worth as they are: few-shot least squares, nearest neighbours and a linear probe."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np

from patchwords.data.broken import Broken
from patchwords.data.preprocess import Preprocess
from patchwords.data.sources.names import printable
from patchwords.errors import DataError, UsageError
from patchwords.evaluation.answers import Compute
from patchwords.evaluation.features import Features, features, protocol
from patchwords.evaluation.fewshot import PENALTY, FewShot, few_shot
from patchwords.evaluation.knn import Knn, nearest
from patchwords.evaluation.pictures import Lesson, Part
from patchwords.evaluation.probe import Probe, probe
from patchwords.settings import at_least, shown, whole
from patchwords.weights.subject import Subject

WAYS = ("few_shot", "knn", "probe")  # as JSON calls them

Working = Callable[[str, int, int], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """The ways that were asked for: shots of a class, numbers of neighbours, the probe; none of them by default."""

    shots: tuple[int, ...] = ()
    penalties: tuple[float, ...] = ()
    neighbours: tuple[int, ...] = ()
    probe: bool = False

    def __post_init__(self) -> None:
        whole(**{"--few-shot": self.shots, "--knn": self.neighbours})
        at_least(1, **{"--few-shot": min(self.shots, default=1), "--knn": min(self.neighbours, default=1)})
        if self.penalties and not self.shots:
            raise UsageError("--penalty is a setting of --few-shot: give both, or neither")
        if other := [penalty for penalty in self.penalties if not isinstance(penalty, int | float)]:
            raise UsageError(f"--penalty: {shown(other[0])} is not a number: write one, as {PENALTY:g}")
        if wrong := [penalty for penalty in self.penalties if not 0 < penalty < math.inf]:
            raise UsageError(f"--penalty {wrong[0]:g} is no number above 0: {PENALTY:g} is the paper's authors'")

    @property
    def anything(self) -> bool:
        return bool(self.shots or self.neighbours or self.probe)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Frozen:
    """What was found, and from how many pictures of which part."""

    part: Part
    learned: int
    judged: int
    width: int
    few_shot: FewShot | None
    knn: Knn | None
    probe: Probe | None

    def numbers(self) -> dict[str, Any]:
        every = dict(zip(WAYS, (self.few_shot, self.knn, self.probe), strict=True))
        of = {"learned": self.learned, "judged": self.judged, "split": self.part}
        return {key: each.numbers() | of for key, each in every.items() if each}


def possible(lesson: Lesson, wanted: Wanted) -> None:
    """Refuses what there are too few pictures for, before any of them is read."""
    count = len(lesson.train)
    if most := [number for number in wanted.neighbours if number > count]:
        raise DataError(f"{most[0]} neighbours are more than the {count} pictures to learn from: choose fewer")
    present = np.union1d(lesson.train.labels, lesson.test.labels)
    counts = np.bincount(lesson.train.labels, minlength=len(lesson.classes))[present]
    if np.count_nonzero(counts) < 2:
        raise DataError("all pictures to learn from are of one class, which nothing needs to be told from: add another")
    if wanted.shots and counts.min() < max(wanted.shots):
        rarest = printable(lesson.classes[present[counts.argmin()]])
        raise DataError(
            f"{max(wanted.shots)} shots need as many pictures of each class to learn from, and '{rarest}' has "
            f"{counts.min()}: choose fewer shots, or add pictures"
        )


def examine(
    subject: Subject, lesson: Lesson, wanted: Wanted, compute: Compute, broken: Broken, working: Working
) -> Frozen:
    """All ways that are wanted: shots by the protocol's preparation of pictures, the others by the model's own."""
    own, classes = subject.card.preprocess, len(lesson.classes)

    @cache
    def both(preprocess: Preprocess) -> tuple[Features, Features]:
        train, test = (
            features(
                subject,
                source,
                preprocess,
                compute,
                broken,
                reading=partial(working, f"reading {what}"),
                progress=partial(working, f"features of {what}"),
            )
            for source, what in ((lesson.train, "train"), (lesson.test, lesson.part))
        )
        return train, test

    few = near = line = None
    if wanted.shots:
        shots: dict[str, Any] = {"shots": wanted.shots, "penalties": wanted.penalties or (PENALTY,)}
        few = few_shot(*both(protocol(own)), classes, **shots, names=lesson.classes)
    if wanted.neighbours:
        near = nearest(*both(own), classes, neighbours=wanted.neighbours, device=compute.device)
    if wanted.probe:
        line = probe(*both(own), classes, progress=partial(working, "a linear probe"))
    train, test = both(protocol(own) if wanted.shots else own)
    return Frozen(
        part=lesson.part,
        learned=len(train.labels),
        judged=len(test.labels),
        width=train.vectors.shape[1],
        few_shot=few,
        knn=near,
        probe=line,
    )
