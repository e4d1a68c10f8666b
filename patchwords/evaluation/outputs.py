"""What the logits of each picture say against its label, in double precision and chunks that bound the memory."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from patchwords.errors import DataError, ModelError

Numbers = NDArray[np.float64]
Counts = NDArray[np.int64]
Outputs = Tensor | NDArray[Any]

CHUNK = 1 << 16  # numbers at a time, in double precision: as many as stay near the processor


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Measured:
    """What every picture contributes to the scores, an array a column."""

    loss: Numbers  # sigmoids are summed over the classes
    likelihood: Numbers  # -log p(label)
    brier: Numbers
    predicted: Counts  # the first of equal logits
    confidence: Numbers  # the probability of the predicted class
    rank: Counts  # how many classes come before the label


def paired(logits: Outputs, labels: Outputs) -> tuple[NDArray[Any], Counts]:
    """Logits (pictures, classes) and labels (pictures) as arrays that belong together."""
    outputs, truth = array(logits), array(labels).astype(np.int64)
    if outputs.ndim != 2 or truth.shape != outputs.shape[:1]:
        raise DataError(f"logits of shape {outputs.shape} and labels of shape {truth.shape} do not belong together")
    if not outputs.size:
        raise DataError(f"logits of shape {outputs.shape} hold nothing to score: give at least one picture and class")
    if truth.min() < 0 or truth.max() >= outputs.shape[1]:
        wrong = truth[(truth < 0) | (truth >= outputs.shape[1])][0]
        raise DataError(f"label {wrong} is none of the {outputs.shape[1]} classes, which are counted from 0")
    return outputs, truth


def array(values: Outputs) -> NDArray[Any]:
    if not isinstance(values, Tensor):
        return np.asarray(values)
    values = values.detach().cpu()
    return (values.float() if values.dtype == torch.bfloat16 else values).numpy()  # numpy has no bfloat16


def chunks(pictures: int, classes: int) -> Iterator[slice]:
    """Pictures whose logits fit a chunk."""
    rows = max(1, CHUNK // classes)
    yield from (slice(start, start + rows) for start in range(0, pictures, rows))


def measure(outputs: NDArray[Any], labels: Counts, loss: str, temperature: float | Numbers = 1.0) -> Measured:
    """All pictures, their logits divided by one temperature or by one each."""
    scale = np.broadcast_to(np.asarray(temperature, dtype=np.float64), labels.shape)
    parts = [_measure(outputs[rows], labels[rows], scale[rows], loss) for rows in chunks(*outputs.shape)]
    names = [field.name for field in fields(Measured)]
    found = Measured(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})
    refuse_non_finite(found.loss)
    return found


def refuse_non_finite(found: Numbers) -> None:
    """Stops where a number made from the logits of a picture is none."""
    if len(wrong := np.flatnonzero(~np.isfinite(found))):
        raise ModelError(f"the logits of {len(wrong)} pictures are not finite, the first of them number {wrong[0]}")


def _measure(outputs: NDArray[Any], labels: Counts, temperature: Numbers, loss: str) -> Measured:
    logits = outputs.astype(np.float64)
    logits /= temperature[:, None]
    rows = np.arange(len(labels))
    chances, losses, likelihoods = LOSSES[loss](logits, labels)
    predicted, true = logits.argmax(1), logits[rows, labels][:, None]
    earlier = (logits == true) & (np.arange(logits.shape[1]) < labels[:, None])
    return Measured(
        loss=losses,
        likelihood=likelihoods,
        # scikit-learn takes more than two classes from 1.7 only, and all probabilities at once
        brier=np.einsum("rc,rc->r", chances, chances) - 2 * chances[rows, labels] + 1,
        predicted=predicted,
        confidence=chances[rows, predicted],
        rank=np.count_nonzero(logits > true, axis=1) + np.count_nonzero(earlier, axis=1),
    )


def _softmax(logits: Numbers, labels: Counts) -> tuple[Numbers, Numbers, Numbers]:
    """Probabilities, and for every picture the loss and -log p(label), which here is the same.

    It is made from logits: scikit-learn's log_loss starts from probabilities, and must cut off what rounds to zero.
    """
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
