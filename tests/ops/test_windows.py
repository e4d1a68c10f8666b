"""Windows: cut and joined without loss, padded where they do not divide, and told apart where a shift mixes them."""

import pytest
import torch

from patchwords.ops.windows import counts, cut, join, moved, regions

Grid = tuple[int, int]

CASES: list[tuple[Grid, Grid, Grid]] = [  # grid, window, shift
    ((4, 6), (2, 3), (0, 0)),
    ((4, 6), (2, 3), (1, 1)),
    ((7, 5), (3, 2), (1, 1)),
    ((3, 8), (3, 4), (1, 2)),
    ((2, 2), (5, 3), (2, 1)),
]
cases = pytest.mark.parametrize(("grid", "window", "shift"), CASES)


@cases
def test_joining_undoes_the_cut(grid: Grid, window: Grid, shift: Grid) -> None:
    x = torch.randn(2, *grid, 3)
    windows = cut(x, window, shift)
    down, across = counts(grid, window)
    assert windows.shape == (2, down, across, window[0] * window[1], 3)
    assert torch.equal(join(windows, window, shift, grid), x)


def test_a_window_is_its_places_row_by_row() -> None:
    x = torch.arange(24).view(1, 4, 6, 1)
    windows = cut(x, (2, 3), (0, 0))[0, ..., 0]
    assert windows[0, 0].tolist() == [0, 1, 2, 6, 7, 8]
    assert windows[1, 1].tolist() == [15, 16, 17, 21, 22, 23]


def test_a_shift_moves_the_windows_down_and_right_and_wraps_around() -> None:
    x = torch.arange(16).view(1, 4, 4, 1)
    windows = cut(x, (2, 2), (1, 1))[0, ..., 0]
    assert windows[0, 0].tolist() == [5, 6, 9, 10]
    assert windows[1, 1].tolist() == [15, 12, 3, 0]


def test_zeros_are_added_below_and_to_the_right_before_the_shift() -> None:
    x = 1 + torch.arange(9).view(1, 3, 3, 1)
    windows = cut(x, (2, 2), (1, 1))[0, ..., 0]
    assert windows[0, 0].tolist() == [5, 6, 8, 9]
    assert windows[0, 1].tolist() == [0, 4, 0, 7]
    assert windows[1, 1].tolist() == [0, 0, 0, 1]


def test_nothing_moves_along_a_side_that_one_window_covers() -> None:
    assert moved((1, 2), (3, 2)) == (1, 2)
    assert moved((1, 2), (1, 2)) == (0, 2)
    assert moved((1, 2), (1, 1)) == (0, 0)


@cases
def test_tokens_of_a_window_have_one_region_if_they_lie_as_far_apart_as_in_the_window(
    grid: Grid, window: Grid, shift: Grid
) -> None:
    down, across = counts(grid, window)
    rows, cols = torch.meshgrid(torch.arange(down * window[0]), torch.arange(across * window[1]), indexing="ij")
    place = cut(torch.stack([rows, cols], -1)[None], window, shift)[0]  # (down, across, tokens, 2)
    inside = torch.cartesian_prod(torch.arange(window[0]), torch.arange(window[1])).view(-1, 2)
    apart = place[:, :, :, None] - place[:, :, None, :]
    near = (apart == inside[:, None] - inside[None, :]).all(-1)
    region = regions((down, across), window, shift, torch.device("cpu"))
    assert torch.equal(region[..., :, None] == region[..., None, :], near)
