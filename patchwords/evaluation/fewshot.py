"""Section 4.1: few-shot accuracy of frozen features, by regularised least squares to {-1, 1}^K in closed form."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patchwords.errors import DataError, UsageError
from patchwords.evaluation.features import Features
from patchwords.settings import at_least

PENALTY = 2.0**10  # the authors' code; the paper does not say
BIAS = 100.0  # the constant feature: so large that its weight is hardly penalised
LEAST = 1e-5  # added to every deviation
CHUNK = 4096  # test pictures at a time

Numbers = NDArray[np.float64]
Indices = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class FewShot:
    """The share of test pictures named rightly, for every number of shots, draw of them, and penalty."""

    shots: tuple[int, ...]
    seeds: tuple[int, ...]
    penalties: tuple[float, ...]  # the first is the one to report: none is chosen by its accuracy
    accuracy: Numbers  # (shots, seeds, penalties)

    @property
    def mean(self) -> Numbers:
        """Over the seeds: (shots, penalties)."""
        return self.accuracy.mean(1)

    @property
    def deviation(self) -> Numbers:
        """Of a single seed's accuracy (with one less than their number below): (shots, penalties)."""
        return self.accuracy.std(1, ddof=1) if len(self.seeds) > 1 else np.zeros_like(self.mean)

    def numbers(self) -> dict[str, Any]:
        rows = [self._row(shots, penalty) for shots in range(len(self.shots)) for penalty in range(len(self.penalties))]
        reported = rows[:: len(self.penalties)]
        return {"penalty": self.penalties[0], "seeds": list(self.seeds), "shots": reported, "sweep": rows}

    def _row(self, shots: int, penalty: int) -> dict[str, Any]:
        return {
            "shots": self.shots[shots],
            "penalty": self.penalties[penalty],
            "accuracy": float(self.mean[shots, penalty]),
            "deviation": float(self.deviation[shots, penalty]),
            "accuracies": self.accuracy[shots, :, penalty].tolist(),
        }


@dataclass(frozen=True, slots=True, eq=False)
class Solver:
    """A decomposed problem: the weights of any penalty e are left · diag(1 / (values + e)) · right."""

    mean: Numbers  # (width)
    deviation: Numbers  # (width)
    left: Numbers  # (inputs, rank)
    values: Numbers  # (rank)
    right: Numbers  # (rank, classes)

    def weights(self, penalty: float = PENALTY) -> Numbers:
        """(inputs, classes), where the last input is the constant."""
        return (self.left / (self.values + penalty)) @ self.right

    def scores(self, vectors: NDArray[Any], penalty: float = PENALTY) -> Numbers:
        """(pictures, classes): the highest is the answer."""
        return _inputs(vectors, self.mean, self.deviation) @ self.weights(penalty)


def fit(support: NDArray[Any], labels: NDArray[Any], classes: int) -> Solver:
    """The problem of these vectors (pictures, width), decomposed in whichever form is smaller."""
    vectors = support.astype(np.float64)
    mean, deviation = vectors.mean(0), vectors.std(0) + LEAST
    x = _inputs(vectors, mean, deviation)  # (pictures, inputs)
    y = 2.0 * (labels[:, None] == np.arange(classes)) - 1  # (pictures, classes)
    if len(x) >= x.shape[1]:
        values, q = np.linalg.eigh(x.T @ x)
        return Solver(mean, deviation, left=q, values=values, right=q.T @ (x.T @ y))
    values, q = np.linalg.eigh(x @ x.T)
    return Solver(mean, deviation, left=x.T @ q, values=values, right=q.T @ y)


def _inputs(vectors: NDArray[Any], mean: Numbers, deviation: Numbers) -> Numbers:
    """Standardised as the support is, and the constant: (pictures, width + 1)."""
    return np.pad((vectors - mean) / deviation, ((0, 0), (0, 1)), constant_values=BIAS)


def samples(labels: NDArray[Any], seed: int, shots: int) -> Indices:
    """The first `shots` pictures of every class in the order of this seed, so that fewer shots are among more.

    A stream, not an address: the published numbers were drawn so. A class that has fewer gives all of its pictures.
    """
    generator = np.random.default_rng(seed)
    order = np.argsort(labels, kind="stable")
    edges = np.cumsum(np.bincount(labels))[:-1]
    return np.concatenate([generator.permutation(own)[:shots] for own in np.split(order, edges)])


def few_shot(
    train: Features,
    test: Features,
    classes: int,
    *,
    shots: Sequence[int] = (1, 5, 10, 25),
    seeds: Sequence[int] = (0, 1, 2),
    penalties: Sequence[float] = (PENALTY,),
    names: Sequence[str] = (),
) -> FewShot:
    """Learns from a few pictures of each class and judges by all test pictures; `names` of classes are for errors."""
    _check(train, test, shots, seeds, penalties, names)
    accuracy = np.empty((len(shots), len(seeds), len(penalties)))
    for i, count in enumerate(shots):
        for j, seed in enumerate(seeds):
            chosen = samples(train.labels, seed, count)
            solver = fit(train.vectors[chosen], train.labels[chosen], classes)
            accuracy[i, j] = _accuracies(solver, test, penalties)
    return FewShot(shots=tuple(shots), seeds=tuple(seeds), penalties=tuple(penalties), accuracy=accuracy)


def _accuracies(solver: Solver, test: Features, penalties: Sequence[float]) -> Numbers:
    weights = [solver.weights(penalty) for penalty in penalties]
    right = np.zeros(len(penalties))
    for start in range(0, len(test.labels), CHUNK):
        chunk = slice(start, start + CHUNK)
        inputs = _inputs(test.vectors[chunk], solver.mean, solver.deviation)
        right += [np.count_nonzero((inputs @ w).argmax(1) == test.labels[chunk]) for w in weights]
    return right / len(test.labels)


def _check(
    train: Features,
    test: Features,
    shots: Sequence[int],
    seeds: Sequence[int],
    penalties: Sequence[float],
    names: Sequence[str],
) -> None:
    if not shots or not seeds or not penalties:
        raise UsageError("few-shot evaluation needs at least one number of shots, one seed and one penalty")
    at_least(1, shots=min(shots))
    at_least(0, seed=min(seeds))
    if wrong := [penalty for penalty in penalties if not 0 < penalty < np.inf]:
        raise UsageError(f"penalty {wrong[0]:g} is no number above 0: {PENALTY:g} is the authors'")
    present = np.union1d(train.labels, test.labels)
    counts = np.bincount(train.labels, minlength=int(present[-1]) + 1)[present]
    if (least := int(counts.min())) < max(shots):
        rarest = int(present[counts.argmin()])
        name = repr(names[rarest]) if names else f"number {rarest}"
        advice = f"{least} shots are the most that work here" if least else "add some"
        raise DataError(
            f"class {name} has {least} readable pictures to learn from, too few for {max(shots)} shots: {advice}"
        )
