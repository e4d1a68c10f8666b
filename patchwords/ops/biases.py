"""BEiT's rule for bias tables on another grid: old offsets are laid out as a geometric progression over the new ones.

So near offsets keep about what they had, far ones are stretched; between them runs a cubic spline.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from patchwords.ops.offsets import entries

Grid = tuple[int, int]
Array = NDArray[np.float64]

SLOWEST, FASTEST, CLOSE = 1.01, 1.5, 1e-6  # the ratios that BEiT allows, and how closely it looks for one


def resample_biases(table: Tensor, old: Grid, new: Grid) -> Tensor:
    """Biases (offsets and what follows them, heads) for another grid; an axis that stays the same is left alone."""
    if old == new:
        return table
    down, right = (torch.from_numpy(stretch(*sides)) for sides in zip(old, new, strict=True))
    maps = table[: entries(old)].double().cpu().unflatten(0, (2 * old[0] - 1, 2 * old[1] - 1))
    maps = torch.einsum("yr,xc,rch->yxh", down, right, maps).flatten(0, 1)
    return torch.cat([maps.to(table), table[entries(old) :]])


def stretch(old: int, new: int) -> Array:
    """The matrix (2 · new - 1, 2 · old - 1) from the biases along an axis to those of another length."""
    if old == new:
        return np.eye(2 * old - 1)
    side = np.cumsum(ratio(old - 1, new - 1) ** np.arange(old - 1))  # 1, 1 + q, 1 + q + q² …
    places = np.concatenate([-side[::-1], [0.0], side])
    return spline(places, np.arange(1.0 - new, new))


def ratio(terms: int, reach: int) -> float:
    """The q with 1 + q + … + q^(terms - 1) = reach, by halving; the nearest allowed one where there is none."""
    low, high, middle = SLOWEST, FASTEST, FASTEST
    while high - low > CLOSE:
        middle = (low + high) / 2
        if (middle**terms - 1) / (middle - 1) > reach:
            high = middle
        else:
            low = middle
    return middle


def spline(places: Array, asked: Array) -> Array:
    """The matrix (asked, places) from values at places to those of the cubic spline through them.

    Its third derivative is continuous next to both ends ("not a knot"), and beyond an end it keeps the last value:
    FITPACK's interpolation. Through three points or fewer it is one polynomial.
    """
    asked = asked.clip(places[0], places[-1])
    count = len(places)
    if count < 4:
        return np.vander(asked, count) @ np.linalg.inv(np.vander(places, count))
    step, values, bends = np.diff(places), np.eye(count), second_derivatives(places)
    left = np.searchsorted(places, asked, side="right").clip(1, count - 1) - 1
    width = step[left][:, None]
    after, before = asked[:, None] - places[left][:, None], places[left + 1][:, None] - asked[:, None]
    curved = bends[left] * before**3 + bends[left + 1] * after**3
    straight = (values[left] - bends[left] * width**2 / 6) * before
    straight += (values[left + 1] - bends[left + 1] * width**2 / 6) * after
    return (curved / 6 + straight) / width


def second_derivatives(places: Array) -> Array:
    """The matrix (places, places) from a spline's values to its second derivatives at the same places."""
    step, count = np.diff(places), len(places)
    equations, slopes = np.zeros((count, count)), np.zeros((count, count))
    for i in range(1, count - 1):  # the first derivative is continuous
        before, after = step[i - 1], step[i]
        equations[i, i - 1 : i + 2] = before, 2 * (before + after), after
        slopes[i, i - 1 : i + 2] = 6 / before, -6 / before - 6 / after, 6 / after
    equations[0, :3] = step[1], -step[0] - step[1], step[0]  # and next to the ends the third
    equations[-1, -3:] = step[-1], -step[-2] - step[-1], step[-2]
    bends: Array = np.linalg.solve(equations, slopes).astype(np.float64)
    return bends
