"""Everything that is told of a model's answers: scores with their intervals, calibration, slices and ReaL."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from patchwords.evaluation.answers import Answers
from patchwords.evaluation.bootstrap import Interval, intervals
from patchwords.evaluation.calibrate import Calibration, Sureness, calibrate
from patchwords.evaluation.classify import Loss, Scores, classify
from patchwords.evaluation.matching import Matching
from patchwords.evaluation.real import Real, Sets, real_accuracy
from patchwords.evaluation.slices import Slice, by_size
from patchwords.pages.wording import interval

MOST_CONFUSION = 100  # classes whose matrix is told as numbers
MEASURED = (
    *("count", "top1", "top5", "macro_f1", "balanced_accuracy", "loss", "negative_log_likelihood", "brier", "ece"),
    *("temperature", "ece_scaled", "loss_scaled", "real", "real_count", "intervals", "classes", "confusion", "slices"),
)  # what JSON tells of a judgement, or that there is none
SHORT = {"accuracy": "top1", "calibration_error": "ece"}  # what scores are called in JSON, where that is another name


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Judgement:
    """A model's answers against the labels, as numbers of its outputs."""

    answers: Answers  # with the data's labels
    names: tuple[str, ...]  # of the outputs
    loss: Loss
    scores: Scores
    intervals: dict[str, Interval]
    calibration: Calibration
    sizes: tuple[Slice, ...]
    real: Real | None

    @property
    def scaled(self) -> Sureness | None:
        """What a temperature is worth, where other pictures tell of one: if all are right, none is low enough."""
        found = self.calibration
        return None if found.folds == 1 or found.bounded else found.after

    def numbers(self) -> dict[str, Any]:
        """All of it, ready for JSON; shares are fractions."""
        scores, side = self.scores.numbers(), len(self.names)
        return {
            **{SHORT.get(name, name): value for name, value in scores.items()},
            "temperature": self.calibration.temperature if self.scaled else None,
            "ece_scaled": self.scaled.calibration_error if self.scaled else None,
            "loss_scaled": self.scaled.loss if self.scaled else None,
            "real": self.real.accuracy if self.real else None,
            "real_count": self.real.count if self.real else None,
            "intervals": {SHORT.get(name, name): list(found) for name, found in self.intervals.items()},
            "classes": self._classes(),
            "confusion": self.scores.confusion.tolist() if side <= MOST_CONFUSION else None,
            "slices": {"size": [asdict(each) for each in self.sizes], "class": list(self._slices())},
        }

    def _classes(self) -> list[dict[str, Any]]:
        found = self.scores.classes
        columns = (found.support, found.predicted, found.precision, found.recall, found.f1)
        keys = ("name", "support", "predicted", "precision", "recall", "f1")
        rows = zip(self.names, *(column.tolist() for column in columns), strict=True)
        return [dict(zip(keys, row, strict=True)) for row in rows]

    def _slices(self) -> Iterator[dict[str, Any]]:
        """The accuracy of each class that occurs, with 95 % confidence."""
        found = self.scores.classes
        for name, count, accuracy in zip(self.names, found.support.tolist(), found.recall.tolist(), strict=True):
            if count:
                low, high = interval(accuracy, count)
                yield asdict(Slice(name=name, count=count, accuracy=accuracy, low=low, high=high))


def judge(answers: Answers, matching: Matching, loss: Loss, sets: Sets | None = None) -> Judgement:
    """The judgement of a source's answers; `sets` are all classes that each picture of the source shows."""
    labels = matching.labels(answers.labels)
    scores = classify(answers.outputs, labels, loss=loss)
    return Judgement(
        answers=answers,
        names=matching.names,
        loss=loss,
        scores=scores,
        intervals=intervals(scores),
        calibration=calibrate(answers.outputs, labels, loss=loss),
        sizes=tuple(by_size(answers.sizes, scores.predicted == labels)),
        real=None if sets is None else real_accuracy(scores.predicted, [sets[i] for i in answers.indices.tolist()]),
    )
