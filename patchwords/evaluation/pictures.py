"""Which pictures a model is judged by: those that it did not learn from, where that is known."""

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from patchwords.data.sources.door import place
from patchwords.data.sources.source import Data, Joined, Source, Subset
from patchwords.data.sources.split import Split
from patchwords.data.sources.split import split as divide
from patchwords.errors import DataError, UsageError
from patchwords.weights.origin import Origin
from patchwords.weights.subject import Subject

Part = Literal["train", "val", "test", "all"]
Asked = Literal["auto", "train", "val", "test", "all"]  # auto: what is fair
Opening = Callable[[str], Data]  # undivided

CALLED: dict[Part, str] = {
    "train": "the training part",
    "val": "the validation part",
    "test": "the test part",
    "all": "every part",
}
SEEN: dict[Part, str] = {
    "train": "which the model learned from",
    "val": "which the model did not learn from",
    "test": "which the model did not learn from",
    "all": "those that the model learned from among them",
}
UNKNOWN = "whether the model learned from some of them is not known"


@dataclass(frozen=True, kw_only=True)
class Pictures:
    """A data set, whether the model learned from its training part, and what to say of it."""

    data: Data
    given: str  # what it was opened by
    learned: bool
    notes: tuple[str, ...] = ()

    @property
    def parts(self) -> dict[str, Source]:
        """The data's own parts; none where it is not divided."""
        data = self.data
        whole = "test" if data.test is data.train else "train"  # where a test is all there is
        found = {name: source for name, source in data.splits.items() if source is not data.train or name == whole}
        return {} if list(found) == ["train"] else found

    def chosen(self, split: Asked) -> tuple[Part, Source]:
        """The pictures to score: what was asked for, or what is fair; test before validation before all."""
        parts = self.parts
        if split == "auto":
            split = "test" if "test" in parts else "val" if "val" in parts else "all"
        if split == "all":
            return split, Joined(list(parts.values())) if len(parts) > 1 else self.data.train
        if split not in parts:
            choice = ", ".join([*parts, "all"])
            raise UsageError(f"--split {split}: {self.data.name} has no such part of its own; choose from {choice}")
        return split, parts[split]

    def said(self, split: Part, count: int) -> str:
        """A sentence about the pictures that are scored; who judges by all there are may judge by what was learned."""
        what = CALLED[split] if self.parts else "all there are"
        seen = f", {SEEN[split]}" if self.learned else "" if self.parts else f"; {UNKNOWN}"
        return f"{count:,} pictures of {self.data.name} are scored: {what}{seen}"

    def lesson(self, split: Asked) -> "Lesson":
        """What features are fitted on and then judged by."""
        if split in ("train", "all"):
            raise UsageError(
                f"--split {split} does not apply to --few-shot, --knn and --probe, which learn from the training "
                "pictures and are judged by others: choose val or test"
            )
        part, judging = self.chosen(split)
        train, classes = self.parts.get("train"), self.data.classes
        if train is not None:
            return Lesson(train=train, test=judging, part=part, classes=classes)
        if self.parts:
            raise DataError(f"{self.data.name} has nothing to learn from but its {part} part: add one called train")
        return self._divided()

    def _divided(self) -> "Lesson":
        """A lesson from data without parts."""
        whole, classes = self.data.train, self.data.classes
        try:
            train, test = (Subset(whole, indices) for indices in divide(whole.labels, classes, Split()))
        except DataError:
            raise DataError(
                f"{self.data.name} has too few pictures to learn from most of them and be judged by a fifth of each "
                "class: add some (5 of one class at least), or lay them out in folders train/ and test/"
            ) from None
        return Lesson(train=train, test=test, part="val", classes=classes)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Lesson:
    """Pictures to learn from and pictures to be judged by, with the same classes."""

    train: Source
    test: Source
    part: Part  # that is judged by
    classes: tuple[str, ...]


def find(subject: Subject, given: str, opening: Opening) -> Pictures:
    """The data that was named, or that of the model's own run, with the run's own division of it."""
    if subject.origin is None and not given:
        raise UsageError(f"{subject.name} does not tell which data it is for: name it, as in `evaluate MODEL DATA`")
    if subject.origin is None:
        return Pictures(data=opening(given), given=given, learned=False)
    return _another(subject.origin, given, opening) if given else _own(subject.origin, opening)


def _own(origin: Origin, opening: Opening) -> Pictures:
    if not origin.labelled:
        raise DataError(
            "the pictures that the run learned from have no labels, and it is judged by some that have: "
            f"give those, as in `patchwords evaluate {shlex.quote(str(origin.folder))} DATA --knn 20`"
        )
    try:
        whole = opening(origin.data)
    except UsageError as error:
        raise UsageError(f"the data that the run learned from is not found: {error}; say where it is now") from None
    if (data := origin.divided(whole)) is None:
        raise DataError(
            f"{origin.data} has changed since the run learned from it, so which pictures it has not seen is not known: "
            f"bring the data back, or take it as it is with `evaluate {origin.folder} {origin.data}`"
        )
    return Pictures(data=data, given=origin.data, learned=True)


def _another(origin: Origin, given: str, opening: Opening) -> Pictures:
    whole = opening(given)
    if data := origin.divided(whole):
        return Pictures(data=data, given=given, learned=True)
    changed = f"{given} has changed since the run learned from it: pictures that it has seen may be among these"
    return Pictures(data=whole, given=given, learned=False, notes=(changed,) if place(given) == origin.data else ())
