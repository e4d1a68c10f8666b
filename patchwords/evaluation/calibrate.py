"""Temperature scaling (Guo et al., 2017): one number makes a model as sure as it is right; no prediction changes."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patchwords.errors import UsageError
from patchwords.evaluation.classify import Bins, Loss, reliability
from patchwords.evaluation.outputs import Counts, Numbers, Outputs, chunks, measure, paired, refuse_non_finite
from patchwords.ops import draws

LOWEST, HIGHEST = 0.01, 100.0  # temperatures; where every picture is right the best one would be nought
SMALLEST, LARGEST = 1 / HIGHEST, 1 / LOWEST  # factors
STEPS = 100  # a handful suffices but where the loss is flat
EXACT = 1e-4  # of the factor: the error after Newton's step is of the order of its square
FAR = -1e30  # stands for a logit of minus infinity: its probability is nought, and so is nought times this


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Sureness:
    """How good the probabilities are, whatever is predicted."""

    loss: float  # what the temperature minimises: softmax or sigmoid cross-entropy
    negative_log_likelihood: float  # the mean of -log p(label)
    calibration_error: float
    bins: Bins


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Calibration:
    """The temperature to use, and what it is worth for pictures that it was not fitted on."""

    temperature: float  # fitted on all pictures; above 1 the model was too sure
    folds: int  # 1: a single picture, which no other one can say anything about
    before: Sureness
    after: Sureness  # each picture scaled by the temperature of the other folds, where they have one

    @property
    def bounded(self) -> bool:
        """Whether the best temperature lies beyond those allowed, as where every picture is predicted rightly."""
        return _is_bound(self.temperature)


def calibrate(
    logits: Outputs, labels: Outputs, *, loss: Loss = "softmax", folds: int = 5, seed: int = 0
) -> Calibration:
    """Before and after; the latter is honest, since no picture is scaled by a temperature that knew its label."""
    outputs, truth = paired(logits, labels)
    before = _sureness(outputs, truth, loss, 1.0)
    best = _fit(outputs, truth, np.arange(len(truth)), loss, 1.0)
    folds, place, scale = min(folds, len(truth)), stratified(truth, folds, seed), np.ones(len(truth))
    for fold in range(folds):
        if len(others := np.flatnonzero(place != fold)):  # a single picture has none, and stays as it is
            found = _fit(outputs, truth, others, loss, best)
            scale[place == fold] = 1.0 if _is_bound(found) else found  # pictures that are all right tell of none
    return Calibration(temperature=best, folds=folds, before=before, after=_sureness(outputs, truth, loss, scale))


def stratified(labels: Counts, folds: int, seed: int) -> Counts:
    """The fold of each picture, at most one fold a picture; every class is spread over them as evenly as it can be."""
    if folds < 2:
        raise UsageError(f"{folds} folds cannot be fitted on each other: choose 2 or more")
    order = draws.permutation("calibration folds", seed, of=len(labels))
    order = order[np.argsort(labels[order], kind="stable")]
    place = np.empty(len(labels), dtype=np.int64)
    place[order] = np.arange(len(labels)) % folds
    return place


def _is_bound(temperature: float) -> bool:
    return temperature in (LOWEST, HIGHEST)


def _sureness(outputs: NDArray[Any], labels: Counts, loss: Loss, scale: float | Numbers) -> Sureness:
    found = measure(outputs, labels, loss, scale)
    bins = reliability(found.confidence, found.predicted == labels)
    return Sureness(
        loss=float(found.loss.mean()),
        negative_log_likelihood=float(found.likelihood.mean()),
        calibration_error=bins.error,
        bins=bins,
    )


def _fit(outputs: NDArray[Any], labels: Counts, rows: Counts, loss: Loss, start: float) -> float:
    """Where the loss is level, which is convex in the factor 1 / T: Newton's steps, and halving where they are slow."""
    low, high = 0.0, math.inf  # factors that were tried and have the best one between them
    factor, before = 1 / start, math.inf
    for _ in range(STEPS):
        slope, curvature = _slope(outputs, labels, rows, loss, factor)
        if slope == 0 or factor == (LARGEST if slope < 0 else SMALLEST):
            break
        low, high = (factor, high) if slope < 0 else (low, factor)
        following = factor - slope / curvature if curvature > 0 else math.inf
        if not max(low, SMALLEST) < following < min(high, LARGEST) or abs(following - factor) > before / 2:
            following = min(max(math.sqrt(low * high), SMALLEST), LARGEST)  # a bound first, if it was not tried yet
        before, factor = abs(following - factor), following
        if before <= EXACT * factor:
            break
    return 1 / factor


def _slope(outputs: NDArray[Any], labels: Counts, rows: Counts, loss: Loss, factor: float) -> tuple[float, float]:
    """First and second derivative of the loss of these pictures by the factor."""
    slopes, curvatures = np.empty(len(rows)), np.empty(len(rows))
    for chunk in chunks(len(rows), outputs.shape[1]):
        logits = outputs[rows[chunk]].astype(np.float64)
        slopes[chunk], curvatures[chunk] = SLOPES[loss](logits, labels[rows[chunk]], factor)
    refuse_non_finite(slopes)
    return float(slopes.mean()), float(curvatures.mean())


def _softmax(logits: Numbers, labels: Counts, factor: float) -> tuple[Numbers, Numbers]:
    """The mean logit under the probabilities less that of the label; and its variance."""
    with np.errstate(invalid="ignore"):  # infinities are refused afterwards
        logits -= logits.max(1, keepdims=True)
        np.maximum(logits, FAR, out=logits)
        weights = np.exp(factor * logits)
        totals = weights.sum(1)
        weights *= logits
        mean, square = weights.sum(1) / totals, np.einsum("rc,rc->r", weights, logits) / totals
        return mean - logits[np.arange(len(labels)), labels], square - mean**2


def _sigmoid(logits: Numbers, labels: Counts, factor: float) -> tuple[Numbers, Numbers]:
    """The same for one yes or no a class."""
    with np.errstate(invalid="ignore", over="ignore"):
        np.maximum(logits, FAR, out=logits)
        chances = 1 / (1 + np.exp(-factor * logits))
        weighted = chances * logits
        slopes = weighted.sum(1) - logits[np.arange(len(labels)), labels]
        return slopes, np.einsum("rc,rc->r", weighted, (1 - chances) * logits)


SLOPES: dict[str, Callable[[Numbers, Counts, float], tuple[Numbers, Numbers]]] = {
    "softmax": _softmax,
    "sigmoid": _sigmoid,
}
