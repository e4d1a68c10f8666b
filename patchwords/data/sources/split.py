"""The stratified split of pictures that come without one: the same share of every class is held out."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from patchwords.data.sources.source import Labels
from patchwords.errors import DataError, UsageError
from patchwords.ops import draws
from patchwords.settings import at_least

Indices = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, slots=True)
class Split:
    """Which share of each class, rounded down, is held out for validation, and the seed that chooses the pictures."""

    share: float = 0.2
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.share < 1:
            raise UsageError(f"validation.share {self.share} is not between 0 and 1: 0.2 holds out a fifth")
        at_least(0, seed=self.seed)

    def said(self, classes: int) -> str:
        """The share in words; where nobody told pictures apart, there are no classes to speak of."""
        return f"{100 * self.share:g} %{' of each class' if classes > 1 else ''}, rounded down"


def split(labels: Labels, classes: Sequence[str], settings: Split) -> tuple[Indices, Indices]:
    """Which pictures to learn from and which to hold out, both in the order of the labels."""
    held = np.zeros(len(labels), dtype=bool)
    order = np.argsort(labels, kind="stable")
    edges = np.searchsorted(labels[order], np.arange(len(classes) + 1))
    for name, start, stop in zip(classes, edges, edges[1:], strict=False):
        chosen = _chosen(name, int(stop - start), settings)
        held[order[start:stop][chosen]] = True
    if not held.any():
        raise DataError(_refusal(int(np.diff(edges).max()), len(classes), settings))
    return np.flatnonzero(~held), np.flatnonzero(held)


def _chosen(name: str, count: int, settings: Split) -> Indices:
    """The numbers within a class that are held out; the address holds its name, so other classes do not move them."""
    shuffled = draws.permutation(f"validation {name!a}", settings.seed, of=count)
    return shuffled[: int(settings.share * count)]


def _refusal(largest: int, classes: int, settings: Split) -> str:
    has, of = (f"the largest of the {classes} classes has", " of one class") if classes > 1 else ("there are", "")
    return (
        f"no picture can be held out for validation: {settings.said(classes)}, is none, since {has} {largest}; "
        f"add pictures (at least {math.ceil(1 / settings.share)}{of}), lay them out in folders train/ and val/, or "
        "set a larger data.validation.share"
    )
