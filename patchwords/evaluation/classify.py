"""What logits are worth against labels: accuracy, every class on its own, who is taken for whom, and calibration."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from patchwords.evaluation.outputs import LOSSES, Counts, Measured, Numbers, Outputs, array, measure, paired

Loss = Literal["softmax", "sigmoid"]

LOWER_IS_BETTER = ("loss", "negative_log_likelihood", "brier", "calibration_error")
TOP = 5
BINS = 15  # of equal width, as in Guo et al., 2017


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Bins:
    """The reliability table: how often the model was right where it was this sure; empty bins hold zeros."""

    edges: Numbers  # (bins + 1); a bin holds its upper edge
    count: Counts
    confidence: Numbers  # the mean of the bin
    accuracy: Numbers

    @property
    def error(self) -> float:
        """The expected calibration error."""
        return float((self.count * abs(self.accuracy - self.confidence)).sum() / self.count.sum())


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Classes:
    """Each class on its own, an array a column; what is undefined (nothing predicted, nothing there) is 0."""

    support: Counts  # pictures of the class
    predicted: Counts  # pictures taken for the class
    precision: Numbers
    recall: Numbers
    f1: Numbers


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Scores:
    """The scores over all pictures, and for each picture what was predicted and how sure the model was."""

    count: int
    loss: float  # softmax or sigmoid cross-entropy without smoothing, sigmoids summed over the classes
    accuracy: float
    top5: float  # the label is among the five highest logits, or among all where there are fewer classes
    macro_f1: float  # over the classes that occur or are predicted
    balanced_accuracy: float  # the mean recall of the classes that occur
    negative_log_likelihood: float  # the mean of -log p(label)
    brier: float  # the squared distance from the probabilities to the label, summed over the classes
    calibration_error: float  # expected; the confidence is the probability of the predicted class
    classes: Classes
    bins: Bins
    labels: Counts  # (count)
    predicted: Counts  # (count); the first of equal logits
    confidence: Numbers  # (count)
    rank: Counts  # (count); how many classes come before the label, of equal logits the first before the others

    @property
    def confusion(self) -> Counts:
        """Pictures by true class (rows) and predicted class (columns)."""
        from sklearn.metrics import confusion_matrix

        with _unsurprised():
            counts = confusion_matrix(self.labels, self.predicted, labels=np.arange(len(self.classes.support)))
        return counts.astype(np.int64, copy=False)

    def confused(self, most: int = 10) -> list[tuple[int, int, int]]:
        """The most frequent mistakes as (true, predicted, count)."""
        side, wrong = len(self.classes.support), self.predicted != self.labels
        pairs, counts = np.unique(self.labels[wrong] * side + self.predicted[wrong], return_counts=True)
        order = np.argsort(-counts, kind="stable")[:most]
        return [(int(pairs[i]) // side, int(pairs[i]) % side, int(counts[i])) for i in order]

    def mistakes(self) -> Counts:
        """The pictures that were predicted wrongly, the surest first."""
        wrong = np.flatnonzero(self.predicted != self.labels)
        return wrong[np.argsort(-self.confidence[wrong], kind="stable")]

    def numbers(self) -> dict[str, float]:
        """The scalars, for a line of metrics."""
        names: tuple[str, ...] = ("loss", "accuracy", "top5", "macro_f1", "balanced_accuracy")
        names += ("negative_log_likelihood", "brier", "calibration_error")
        return {"count": self.count} | {name: getattr(self, name) for name in names}


def classify(logits: Outputs, labels: Outputs, *, loss: Loss = "softmax") -> Scores:
    """The scores of logits (pictures, classes) against labels (pictures); every picture counts once."""
    outputs, truth = paired(logits, labels)
    return _scores(measure(outputs, truth, loss), truth, outputs.shape[1])


def probabilities(logits: Outputs, *, loss: Loss = "softmax") -> Numbers:
    """Of every class (pictures, classes): they sum to one under a softmax, and stand alone under sigmoids."""
    outputs = array(logits).astype(np.float64)
    return LOSSES[loss](outputs, np.zeros(len(outputs), dtype=np.int64))[0]


def reliability(confidence: Numbers, right: NDArray[np.bool_]) -> Bins:
    """How sure against how right; scikit-learn's calibration_curve knows two classes, and keeps no counts."""
    places = bin_of(confidence)
    count = np.bincount(places, minlength=BINS)
    return Bins(
        edges=np.arange(BINS + 1) / BINS,
        count=count,
        confidence=_ratio(np.bincount(places, confidence, minlength=BINS), count),
        accuracy=_ratio(np.bincount(places, right, minlength=BINS), count),
    )


def bin_of(confidence: Numbers) -> Counts:
    """The number of the bin that each confidence falls into."""
    return np.clip(np.ceil(confidence * BINS).astype(np.int64) - 1, 0, BINS - 1)


def _ratio(part: NDArray[Any], whole: Counts) -> Numbers:
    return np.divide(part, whole, out=np.zeros(len(whole)), where=whole > 0)


def _scores(found: Measured, labels: Counts, side: int) -> Scores:
    from sklearn.metrics import accuracy_score, f1_score, recall_score

    predicted, bins = found.predicted, reliability(found.confidence, found.predicted == labels)
    with _unsurprised():
        return Scores(
            count=len(labels),
            loss=float(found.loss.mean()),
            accuracy=float(accuracy_score(labels, predicted)),
            top5=float((found.rank < TOP).mean()),  # top_k_accuracy_score wants more than two and than k classes
            macro_f1=float(f1_score(labels, predicted, average="macro", zero_division=0)),
            balanced_accuracy=float(  # balanced_accuracy_score makes the whole matrix, 4 GB of it for ImageNet-21k
                recall_score(labels, predicted, labels=np.unique(labels), average="macro", zero_division=0)
            ),
            negative_log_likelihood=float(found.likelihood.mean()),
            brier=float(found.brier.mean()),
            calibration_error=bins.error,
            classes=_classes(labels, predicted, side),
            bins=bins,
            labels=labels,
            predicted=predicted,
            confidence=found.confidence,
            rank=found.rank,
        )


def _classes(labels: Counts, predicted: Counts, side: int) -> Classes:
    from sklearn.metrics import precision_recall_fscore_support

    every = np.arange(side)
    precision, recall, f1, support = precision_recall_fscore_support(labels, predicted, labels=every, zero_division=0)
    return Classes(
        support=support.astype(np.int64, copy=False),
        predicted=np.bincount(predicted, minlength=side),
        precision=precision,
        recall=recall,
        f1=f1,
    )


@contextmanager
def _unsurprised() -> Iterator[None]:
    """scikit-learn warns where there is one class, and in 1.7 where most have one picture: both may be so here."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The number of unique classes|A single label was found", UserWarning)
        yield
