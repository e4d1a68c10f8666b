"""One model and one data set: what was asked of them, and which of that can be answered by which pictures."""

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from patchwords.data.sources.parts import OWN_VALIDATION, TEST_WAITS
from patchwords.data.sources.source import Source
from patchwords.errors import DataError, ModelError, UsageError
from patchwords.evaluation.answers import Compute
from patchwords.evaluation.frozen import Wanted, Working, possible
from patchwords.evaluation.matching import FEATURES, NO_CLASSES, Matching, match, mismatch
from patchwords.evaluation.pictures import Asked, Lesson, Part, Pictures
from patchwords.evaluation.real import CLASSES, Sets, real_file, real_sets
from patchwords.settings import at_least, check, shown
from patchwords.speed.device import choose
from patchwords.speed.precision import Mixed, check_precision
from patchwords.weights.classless import towards_classes
from patchwords.weights.subject import RANDOM, Subject

TRAINING = (OWN_VALIDATION, TEST_WAITS)  # notes on data that are for those who train


@dataclass(frozen=True, kw_only=True, slots=True)
class How:
    """Which pictures are scored, and how; more than the share `broken` that cannot be read is an error."""

    split: Asked
    by_order: bool
    real: str
    device: str
    precision: Mixed
    batch: int
    broken: float

    def __post_init__(self) -> None:
        check(self)
        at_least(1, batch=self.batch)
        if not isinstance(self.broken, int | float):
            raise UsageError(f"broken: {shown(self.broken)} is not a number: write one, as 0.001")
        if not 0 <= self.broken <= 1:
            raise UsageError(f"broken {self.broken:g} is no share of the pictures: choose one from 0 to 1")

    def compute(self) -> Compute:
        device = choose(self.device)
        check_precision(self.precision, device)
        return Compute(device=device, precision=self.precision, batch=self.batch)


@dataclass(frozen=True, kw_only=True)
class Watch:
    """Who hears of what goes on, and what was said to them."""

    note: Callable[[str], None]
    working: Working
    said: list[str] = field(default_factory=list)

    def say(self, sentence: str) -> None:
        self.said.append(sentence)
        self.note(sentence)


@dataclass(frozen=True, kw_only=True)
class Task:
    """What was asked."""

    subject: Subject
    pictures: Pictures
    how: How
    wanted: Wanted
    compute: Compute
    watch: Watch


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What can be answered: by which pictures, by which outputs (none where they mean nothing), by which lesson."""

    part: Part
    source: Source
    matching: Matching | None
    sets: Sets | None  # of ReaL
    lesson: Lesson | None
    said: str

    @property
    def total(self) -> int:
        """The pictures that are read; what is scored is among those of the lesson."""
        return len(self.lesson.train) + len(self.lesson.test) if self.lesson else len(self.source)


def expect_classes(subject: Subject, wanted: Wanted) -> None:
    """Refuses to score what has no classes before its pictures are opened: those of its own run may have no labels."""
    if subject.card.model.classes or wanted.anything or subject.card.source == RANDOM:
        return
    said = f"{NO_CLASSES}: {towards_classes(subject.card.model)}, or {FEATURES} on labelled pictures"
    if subject.origin:
        run = shlex.quote(str(subject.origin.folder))
        said += f" (`patchwords evaluate {run} DATA --knn 20`); its own loss is told by `patchwords show {run}`"
    raise ModelError(said)


def planned(task: Task) -> Plan:
    """The plan, with what a person should hear of it; what is wrong is found before the model is asked."""
    pictures, how, watch = task.pictures, task.how, task.watch
    for remark in (*pictures.notes, *(note for note in pictures.data.notes if note not in TRAINING)):
        watch.say(remark)
    part, source = pictures.chosen(how.split)
    lesson = pictures.lesson(how.split) if task.wanted.anything else None
    if lesson:
        possible(lesson, task.wanted)
    matching = _matching(task)
    sets = _sets(task, part, source, matching) if matching else None
    said = pictures.said(part, len(source)) if matching or not lesson else ""
    if lesson:
        said = f"{said}. " if said else ""
        said += f"Features are fitted on {len(lesson.train):,} pictures and judged by {len(lesson.test):,} others"
    watch.say(said)
    return Plan(part=part, source=source, matching=matching, sets=sets, lesson=lesson, said=said)


def _matching(task: Task) -> Matching | None:
    """Which output is which class; none where only the features can be judged, and that was asked for."""
    subject, how = task.subject, task.how
    if subject.card.source == RANDOM:
        _refuse_answers(task)
        return None
    classes = task.pictures.data.classes
    features_do = task.wanted.anything and not how.real and not how.by_order
    if features_do and (reason := mismatch(subject.card, classes)):
        task.watch.say(f"only the features are judged: {reason}")
        return None
    found = match(subject.card, classes, by_order=how.by_order)
    for remark in found.notes:
        task.watch.say(remark)
    return found


def _refuse_answers(task: Task) -> None:
    """Random weights have features, but no answers."""
    name = f"{task.subject.name} is a name alone, so its answers are random"
    if not task.wanted.anything:
        raise UsageError(f"{name}: give weights, or judge its features with --few-shot, --knn or --probe")
    if task.how.by_order or task.how.real:
        raise UsageError(f"{name}: leave out {'--by-order' if task.how.by_order else '--real'}, which is about these")


def _sets(task: Task, part: Part, source: Source, matching: Matching) -> Sets | None:
    """All classes that each picture shows, from the file that was named, or that lies with the validation pictures."""
    classes = task.pictures.data.classes
    if task.how.real:
        return _known(Path(task.how.real), source, matching, classes)
    validation = part == "val" or not task.pictures.parts
    beside = real_file(Path(task.pictures.given).expanduser()) if validation else None
    try:
        return _known(beside, source, matching, classes) if beside else None
    except DataError as error:  # nobody asked for it
        task.watch.say(f"there is no ReaL accuracy: {error}")
        return None


def _known(path: Path, source: Source, matching: Matching, classes: Sequence[str]) -> Sets:
    """The sets as outputs, by their names, or by those of the data where the model knows more than ImageNet's."""
    if len(matching.names) == CLASSES:
        return real_sets(path, source, matching.names)
    found = real_sets(path, source, classes)
    return [tuple(matching.outputs[list(allowed)].tolist()) for allowed in found]
