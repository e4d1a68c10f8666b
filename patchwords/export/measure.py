"""What an exported file is worth on a data set, beside the model."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patchwords.data.broken import Broken
from patchwords.data.sources.source import Source, Subset
from patchwords.errors import DataError
from patchwords.evaluation.answers import Answers, Compute, answers
from patchwords.evaluation.matching import Matching, match, mismatch
from patchwords.evaluation.pictures import Opening, find
from patchwords.export.parity import Says
from patchwords.weights.card import Card
from patchwords.weights.subject import Subject

BROKEN = 0.001  # more unreadable pictures than this share are an error
Working = Callable[[str, int, int], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """The accuracy before and after, as shares, and how often both put the same class first."""

    data: str
    pictures: int
    model: float
    file: float
    agreement: float

    def numbers(self) -> dict[str, Any]:
        """Ready for JSON."""
        return asdict(self) | {"change": self.file - self.model}


@dataclass(frozen=True, kw_only=True, eq=False)
class Trial:
    """The pictures to measure by, and which output stands for which of their classes."""

    name: str
    source: Source
    matching: Matching

    def ask(self, says: Says, card: Card, what: str, note: Callable[[str], None], working: Working) -> Answers:
        broken = Broken(BROKEN, len(self.source), note, "--data to others")
        return answers(
            says,
            self.source,
            card.preprocess,
            card.model.channels,
            Compute(),
            broken,
            lambda done, total: working(what, done, total),
        )

    def measure(self, model: Says, file: Says, card: Card, note: Callable[[str], None], working: Working) -> Measured:
        """Both asked about every picture."""
        before = self.ask(model, card, "asking the model", note, working)
        after = self.ask(file, card, "asking the file", lambda _: None, working)
        labels = self.matching.labels(before.labels)
        first, then = (found.outputs.argmax(1) for found in (before, after))
        return Measured(
            data=self.name,
            pictures=len(labels),
            model=_share(first == labels),
            file=_share(then == labels),
            agreement=_share(first == then),
        )


def trial(subject: Subject, given: str, most: int | None, opening: Opening, note: Callable[[str], None]) -> Trial:
    """The fair pictures of a data set, as `evaluate` takes them; of more than `most` some, evenly spread."""
    pictures = find(subject, given, opening)
    part, source = pictures.chosen("auto")
    if reason := mismatch(subject.card, pictures.data.classes):
        raise DataError(f"{reason}: give --data with the model's classes")
    if most is not None and most < len(source):
        source = Subset(source, np.linspace(0, len(source) - 1, most).round().astype(np.int64))
    matching = match(subject.card, pictures.data.classes)
    for remark in (*pictures.notes, *matching.notes, pictures.said(part, len(source))):
        note(remark)
    return Trial(name=pictures.data.name, source=source, matching=matching)


def _share(same: NDArray[np.bool_]) -> float:
    return float(same.mean())
