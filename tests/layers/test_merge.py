"""Patch merging: the four neighbours side by side, a norm, and half of their width."""

import pytest
import torch

from patchwords.layers.merge import Merge


def test_four_neighbours_become_one_place() -> None:
    merge = Merge(3, 1e-3).double()
    torch.nn.init.normal_(merge.norm.weight)
    x = torch.randn(2, 4, 6, 3, dtype=torch.float64)
    merged = merge(x)
    assert merged.shape == (2, 2, 3, 6)
    four = torch.cat([x[:, 2, 4], x[:, 3, 4], x[:, 2, 5], x[:, 3, 5]], -1)  # down first, then right
    torch.testing.assert_close(merged[:, 1, 2], merge.norm(four) @ merge.reduction.weight.T)


@pytest.mark.parametrize(("grid", "half"), [((3, 4), (2, 2)), ((2, 5), (1, 3)), ((1, 1), (1, 1)), ((7, 3), (4, 2))])
def test_an_odd_side_is_rounded_up_with_zeros(grid: tuple[int, int], half: tuple[int, int]) -> None:
    merge, x = Merge(2, 1e-5), torch.randn(1, *grid, 2)
    padded = torch.zeros(1, 2 * half[0], 2 * half[1], 2)
    padded[:, : grid[0], : grid[1]] = x
    assert merge(x).shape[1:3] == half
    assert torch.equal(merge(x), merge(padded))
