"""What logits are worth against labels: accuracy, every class on its own, who is taken for whom, and calibration."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from patchwords.errors import DataError, ModelError

Loss = Literal["softmax", "sigmoid"]
Numbers = NDArray[np.float64]
Counts = NDArray[np.int64]

LOWER_IS_BETTER = ("loss", "negative_log_likelihood", "brier", "calibration_error")
TOP = 5
BINS = 15  # of equal width, as in Guo et al., 2017
CHUNK = 1 << 21  # numbers at a time: double precision without twice the logits in memory


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Bins:
    """The reliability table: how often the model was right where it was this sure; empty bins hold zeros."""

    edges: Numbers  # (bins + 1); a bin holds its upper edge
    count: Counts
    confidence: Numbers  # the mean of the bin
    accuracy: Numbers


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

    @property
    def confusion(self) -> Counts:
        """Pictures by true class (rows) and predicted class (columns)."""
        side = len(self.classes.support)
        places = self.labels * side + self.predicted
        return np.bincount(places, minlength=side * side).reshape(side, side)

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


def classify(logits: Tensor | NDArray[Any], labels: Tensor | NDArray[Any], *, loss: Loss = "softmax") -> Scores:
    """The scores of logits (pictures, classes) against labels (pictures); every picture counts once."""
    outputs, truth = _array(logits), _array(labels).astype(np.int64)
    _check(outputs, truth)
    rows = max(1, CHUNK // outputs.shape[1])
    chunks = [slice(start, start + rows) for start in range(0, len(outputs), rows)]
    parts = [_measure(outputs[chunk].astype(np.float64), truth[chunk], loss) for chunk in chunks]
    measured = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    _refuse_non_finite(measured["loss"])
    return _scores(measured, truth, outputs.shape[1])


def probabilities(logits: Tensor | NDArray[Any], *, loss: Loss = "softmax") -> Numbers:
    """Of every class (pictures, classes): they sum to one under a softmax, and stand alone under sigmoids."""
    outputs = _array(logits).astype(np.float64)
    return LOSSES[loss](outputs, np.zeros(len(outputs), dtype=np.int64))[0]


def _array(values: Tensor | NDArray[Any]) -> NDArray[Any]:
    if not isinstance(values, Tensor):
        return np.asarray(values)
    values = values.detach().cpu()
    return (values.float() if values.dtype == torch.bfloat16 else values).numpy()  # numpy has no bfloat16


def _check(logits: NDArray[Any], labels: Counts) -> None:
    if logits.ndim != 2 or labels.shape != logits.shape[:1]:
        raise DataError(f"logits of shape {logits.shape} and labels of shape {labels.shape} do not belong together")
    if not logits.size:
        raise DataError(f"logits of shape {logits.shape} hold nothing to score: give at least one picture and class")
    if labels.min() < 0 or labels.max() >= logits.shape[1]:
        wrong = labels[(labels < 0) | (labels >= logits.shape[1])][0]
        raise DataError(f"label {wrong} is none of the {logits.shape[1]} classes, which are counted from 0")


def _refuse_non_finite(loss: Numbers) -> None:
    if len(wrong := np.flatnonzero(~np.isfinite(loss))):
        raise ModelError(f"the logits of {len(wrong)} pictures are not finite, the first of them number {wrong[0]}")


def _measure(logits: Numbers, labels: Counts, loss: Loss) -> dict[str, NDArray[Any]]:
    """What one picture contributes, for a chunk of them."""
    rows = np.arange(len(labels))
    chances, losses, likelihoods = LOSSES[loss](logits, labels)
    predicted, true = logits.argmax(1), logits[rows, labels][:, None]
    earlier = (logits == true) & (np.arange(logits.shape[1]) < labels[:, None])
    return {
        "loss": losses,
        "likelihood": likelihoods,
        "predicted": predicted,
        "confidence": chances[rows, predicted],
        "rank": np.count_nonzero(logits > true, axis=1) + np.count_nonzero(earlier, axis=1),
        "brier": np.einsum("rc,rc->r", chances, chances) - 2 * chances[rows, labels] + 1,
    }


def _softmax(logits: Numbers, labels: Counts) -> tuple[Numbers, Numbers, Numbers]:
    """Probabilities, and for every picture the loss and -log p(label), which here is the same."""
    with np.errstate(invalid="ignore"):  # infinities are refused afterwards, by their loss
        shifted = logits - logits.max(1, keepdims=True)
        chances = np.exp(shifted)
        totals = chances.sum(1)
        chances /= totals[:, None]
        losses = np.log(totals) - shifted[np.arange(len(labels)), labels]
    return chances, losses, losses


def _sigmoid(logits: Numbers, labels: Counts) -> tuple[Numbers, Numbers, Numbers]:
    """The same for one yes or no a class."""
    true = logits[np.arange(len(labels)), labels]
    with np.errstate(invalid="ignore", over="ignore"):
        chances = 1 / (1 + np.exp(-logits))
        return chances, np.logaddexp(0, logits).sum(1) - true, np.logaddexp(0, -true)


LOSSES: dict[str, Callable[[Numbers, Counts], tuple[Numbers, Numbers, Numbers]]] = {
    "softmax": _softmax,
    "sigmoid": _sigmoid,
}


def _scores(measured: dict[str, NDArray[Any]], labels: Counts, side: int) -> Scores:
    predicted, confidence = measured["predicted"], measured["confidence"]
    classes, bins = _classes(labels, predicted, side), _bins(confidence, predicted == labels)
    there, seen = classes.support > 0, (classes.support > 0) | (classes.predicted > 0)
    return Scores(
        count=len(labels),
        loss=float(measured["loss"].mean()),
        accuracy=float((predicted == labels).mean()),
        top5=float((measured["rank"] < TOP).mean()),
        macro_f1=float(classes.f1[seen].mean()),
        balanced_accuracy=float(classes.recall[there].mean()),
        negative_log_likelihood=float(measured["likelihood"].mean()),
        brier=float(measured["brier"].mean()),
        calibration_error=float((bins.count * abs(bins.accuracy - bins.confidence)).sum() / len(labels)),
        classes=classes,
        bins=bins,
        labels=labels,
        predicted=predicted,
        confidence=confidence,
    )


def _classes(labels: Counts, predicted: Counts, side: int) -> Classes:
    support = np.bincount(labels, minlength=side)
    taken = np.bincount(predicted, minlength=side)
    right = np.bincount(labels[labels == predicted], minlength=side)
    return Classes(
        support=support,
        predicted=taken,
        precision=_ratio(right, taken),
        recall=_ratio(right, support),
        f1=_ratio(2 * right, support + taken),
    )


def _bins(confidence: Numbers, right: NDArray[np.bool_]) -> Bins:
    places = np.clip(np.ceil(confidence * BINS).astype(np.int64) - 1, 0, BINS - 1)
    count = np.bincount(places, minlength=BINS)
    return Bins(
        edges=np.arange(BINS + 1) / BINS,
        count=count,
        confidence=_ratio(np.bincount(places, confidence, minlength=BINS), count),
        accuracy=_ratio(np.bincount(places, right, minlength=BINS), count),
    )


def _ratio(part: NDArray[Any], whole: Counts) -> Numbers:
    return np.divide(part, whole, out=np.zeros(len(whole)), where=whole > 0)
