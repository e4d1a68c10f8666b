"""Accuracy by the size of the pictures: whether small files, or large ones, are harder."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patchwords.errors import DataError
from patchwords.evaluation.outputs import Counts
from patchwords.pages.wording import interval

QUARTERS = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class Slice:
    """Some of the pictures, and where their accuracy lies with 95 % confidence."""

    name: str
    count: int
    accuracy: float
    low: float
    high: float


def by_size(sizes: NDArray[Any], right: NDArray[Any]) -> list[Slice]:
    """Quarters of the pictures (height, width), the smallest first; pictures of one size are never parted."""
    if sizes.shape != (len(right), 2):
        raise DataError(f"sizes of shape {sizes.shape} do not belong to {len(right)} pictures: give height and width")
    sides = np.rint(np.sqrt(sizes.astype(np.float64).prod(1))).astype(np.int64)  # of a square with as many pixels
    places = np.searchsorted(_upper(sides), sides)
    return [_slice(sides[places == place], right[places == place]) for place in np.unique(places)]


def _upper(sides: Counts) -> Counts:
    """The largest side of each slice; each size is a slice of its own where there are few."""
    distinct = np.unique(sides)
    if len(distinct) <= QUARTERS:
        return distinct
    shares = np.arange(1, QUARTERS + 1) / QUARTERS
    return np.unique(np.quantile(sides, shares, method="inverted_cdf"))


def _slice(sides: Counts, right: NDArray[Any]) -> Slice:
    smallest, largest, accuracy = sides.min(), sides.max(), float(np.mean(right))
    low, high = interval(accuracy, len(sides))
    name = f"{smallest} pixels a side" if smallest == largest else f"{smallest} to {largest} pixels a side"
    return Slice(name=name, count=len(sides), accuracy=accuracy, low=low, high=high)
