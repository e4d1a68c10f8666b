"""How far a score would move with other pictures of the same kind: the bootstrap (Efron, 1979) over pictures."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from patchwords.errors import UsageError
from patchwords.evaluation.classify import BINS, TOP, Scores, bin_of
from patchwords.evaluation.outputs import CHUNK, Numbers
from patchwords.ops import draws

LEVEL = 0.95
RESAMPLES = 1000
MEANS = ("accuracy", "top5")  # over the pictures
OTHERS = ("macro_f1", "balanced_accuracy", "calibration_error")


class Interval(NamedTuple):
    """Where the score lies with this confidence."""

    low: float
    high: float


def intervals(
    scores: Scores, *, level: float = LEVEL, resamples: int = RESAMPLES, seed: int = 0
) -> dict[str, Interval]:
    """Of some of the scores, by the names they have there, all from the same resamples."""
    found = np.array(list(_rescored(scores, resamples, seed)))  # (resamples, scores)
    means = {name: _percentiles(found[:, place], level) for place, name in enumerate(MEANS)}
    others = enumerate(OTHERS, start=len(MEANS))
    return means | {name: _centred(found[:, place], getattr(scores, name), level) for place, name in others}


def _rescored(scores: Scores, resamples: int, seed: int) -> Iterator[tuple[float, ...]]:
    """MEANS and OTHERS of every resample; own sums, since scikit-learn would take a minute for all of them."""
    right, side = scores.predicted == scores.labels, len(scores.classes.support)
    hits, first = np.flatnonzero(right), scores.rank < TOP
    bins, gap = bin_of(scores.confidence), right - scores.confidence
    for times in (row for block in _resamples(scores.count, resamples, seed) for row in block):
        support = np.bincount(scores.labels, times, minlength=side)
        taken = np.bincount(scores.predicted, times, minlength=side)
        found = np.bincount(scores.labels[hits], times[hits], minlength=side)
        there, seen = support > 0, support + taken > 0
        yield (
            times @ right / scores.count,
            times @ first / scores.count,
            (2 * found[seen] / (support + taken)[seen]).mean(),
            (found[there] / support[there]).mean(),
            abs(np.bincount(bins, times * gap, minlength=BINS)).sum() / scores.count,
        )


def _resamples(pictures: int, resamples: int, seed: int) -> Iterator[Numbers]:
    """How often each picture was drawn, (some resamples, pictures) at a time."""
    if resamples < 1:
        raise UsageError(f"{resamples} resamples give no interval: choose 1 or more")
    block = max(1, CHUNK // pictures)
    for start in range(0, resamples, block):
        numbers = np.arange(start, min(start + block, resamples))
        drawn = (draws.uniform("bootstrap", seed, numbers, count=pictures) * pictures).astype(np.int64)
        drawn += np.arange(len(numbers))[:, None] * pictures
        times = np.bincount(drawn.ravel(), minlength=len(numbers) * pictures)
        yield times.reshape(len(numbers), pictures).astype(np.float64)


def _percentiles(resampled: Numbers, level: float) -> Interval:
    if not 0 < level < 1:
        raise UsageError(f"level {level} is no confidence: choose one between 0 and 1, such as {LEVEL}")
    low, high = np.quantile(resampled, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(low), float(high))


def _centred(resampled: Numbers, score: float, level: float) -> Interval:
    """The percentiles moved to stand around the score, for scores that are no means.

    Resampling makes small bins noisier, which adds to every absolute gap, and loses rare classes: an interval
    that kept this bias could leave out the score itself.
    """
    low, high = _percentiles(np.clip(resampled + (score - resampled.mean()), 0, 1), level)
    return Interval(min(low, score), max(high, score))  # where all but a few resamples are the same
