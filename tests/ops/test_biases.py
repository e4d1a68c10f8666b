"""BEiT's rule for bias tables on another grid, beside scipy's splines."""

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy import interpolate
from torch import Tensor

from patchwords.ops.biases import ratio, resample_biases, spline, stretch
from patchwords.ops.offsets import entries

Grid = tuple[int, int]
Array = NDArray[np.float64]

HEADS = 3
GRIDS = [
    ((14, 14), (24, 24)),
    ((24, 24), (14, 14)),
    ((14, 14), (15, 15)),
    ((3, 3), (30, 30)),  # no allowed ratio reaches so far
    ((2, 2), (3, 3)),  # too few points for a cubic
    ((4, 4), (7, 9)),
    ((6, 3), (4, 5)),
    ((2, 5), (5, 2)),  # as many entries as before
]


def table(grid: Grid, special: int = 1) -> Tensor:
    return torch.randn(entries(grid) + (3 if special else 0), HEADS, dtype=torch.float64)


def laid_out(old: int, new: int) -> list[float]:
    """The places of the old offsets among the new ones, as BEiT's code finds them: terms of a growing sum."""
    low, high, middle = 1.01, 1.5, 0.0
    while high - low > 1e-6:
        middle = (low + high) / 2
        total = sum(middle**i for i in range(old - 1))
        low, high = (low, middle) if total > new - 1 else (middle, high)
    half = [sum(middle**i for i in range(count + 1)) for count in range(old - 1)]
    return [-place for place in half[::-1]] + [0.0] + half


def by_scipy(values: Array, old: Grid, new: Grid) -> Any:
    """One head's map of offsets; FITPACK's surface is what scipy's interp2d made of a rectangular grid."""
    y, x = (laid_out(*sides) for sides in zip(old, new, strict=True))
    surface = interpolate.RectBivariateSpline(y, x, values, kx=min(3, len(y) - 1), ky=min(3, len(x) - 1), s=0)
    return surface(*(np.arange(1.0 - side, side) for side in new))


@pytest.mark.parametrize(("old", "new"), GRIDS)
def test_offsets_are_stretched_by_a_progression_and_splines_as_beit_does_with_scipy(old: Grid, new: Grid) -> None:
    before = table(old)
    after = resample_biases(before, old, new)
    assert after.shape == (entries(new) + 3, HEADS)
    for head in range(HEADS):
        values = before[:-3, head].reshape(2 * old[0] - 1, 2 * old[1] - 1).numpy()
        wanted = torch.from_numpy(by_scipy(values, old, new)).flatten()
        torch.testing.assert_close(after[:-3, head], wanted, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("old", "new"), GRIDS)
def test_the_three_entries_of_the_class_token_are_kept(old: Grid, new: Grid) -> None:
    before = table(old)
    assert torch.equal(resample_biases(before, old, new)[-3:], before[-3:])


def test_a_table_of_patches_alone_has_no_others() -> None:
    before = table((3, 4))
    after = resample_biases(before[:-3], (3, 4), (5, 4))
    assert torch.equal(after, resample_biases(before, (3, 4), (5, 4))[:-3])


def test_the_same_grid_is_left_alone() -> None:
    before = table((3, 4))
    assert resample_biases(before, (3, 4), (3, 4)) is before


def test_an_axis_that_stays_is_left_alone() -> None:
    before = table((3, 4))
    after = resample_biases(before, (3, 4), (3, 6))
    maps = before[:-3].reshape(5, 7, HEADS)
    wanted = torch.einsum("xc,rch->rxh", torch.from_numpy(stretch(4, 6)), maps)
    torch.testing.assert_close(after[:-3].reshape(5, 11, HEADS), wanted)


def test_a_patch_and_itself_keep_their_bias() -> None:
    before = table((4, 4))
    after = resample_biases(before, (4, 4), (6, 7))
    torch.testing.assert_close(after[entries((6, 7)) // 2], before[entries((4, 4)) // 2])


def test_the_farthest_old_offset_lies_on_the_farthest_new_one() -> None:
    values = np.zeros(27)
    values[0] = values[-1] = 1.0  # the ends of a row of 14
    found = stretch(14, 24) @ values
    assert found[[0, -1]] == pytest.approx([1, 1], abs=1e-4)


def test_single_precision_stays_single_and_is_computed_in_double() -> None:
    before = table((4, 4))
    after = resample_biases(before.float(), (4, 4), (6, 6))
    assert after.dtype == torch.float32
    torch.testing.assert_close(after, resample_biases(before.float().double(), (4, 4), (6, 6)).float(), rtol=0, atol=0)


@pytest.mark.parametrize(("terms", "reach", "found"), [(13, 23, 1.090307), (13, 13, 1.01), (1, 9, 1.5), (0, 5, 1.5)])
def test_the_ratio_is_where_the_progression_reaches_or_at_the_nearest_allowed(
    terms: int, reach: int, found: float
) -> None:
    assert ratio(terms, reach) == pytest.approx(found, abs=1e-6)


@pytest.mark.parametrize("count", [4, 5, 9])
def test_a_spline_is_scipys_that_is_not_a_knot_at_its_ends(count: int) -> None:
    places = np.cumsum(np.random.default_rng(0).uniform(0.1, 2, count))
    values = np.random.default_rng(1).normal(size=count)
    asked = np.linspace(places[0], places[-1], 40)
    wanted = interpolate.CubicSpline(places, values, bc_type="not-a-knot")(asked)
    np.testing.assert_allclose(spline(places, asked) @ values, wanted, atol=1e-9)


@pytest.mark.parametrize("count", [1, 3, 4, 7])
def test_a_spline_keeps_its_values_and_its_last_one_beyond_an_end(count: int) -> None:
    places, values = np.arange(count) ** 1.5, np.random.default_rng(1).normal(size=count)
    np.testing.assert_allclose(spline(places, places) @ values, values, atol=1e-9)
    beyond = np.array([places[0] - 3, places[-1] + 3])
    np.testing.assert_allclose(spline(places, beyond) @ values, values[[0, -1]], atol=1e-9)
