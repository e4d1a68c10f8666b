"""Relative positions: which entry of a table belongs to the offset between two places of a grid (Swin, BEiT)."""

import torch
from torch import Tensor
from torch.nn import functional as F

Grid = tuple[int, int]


def entries(grid: Grid) -> int:
    """How many offsets there are: from -(rows - 1) to rows - 1, and the same for columns."""
    return (2 * grid[0] - 1) * (2 * grid[1] - 1)


def offsets(grid: Grid) -> Tensor:
    """The entry of the offset from key to query, (rows · cols, rows · cols), places and offsets in raster order."""
    rows, cols = (torch.arange(length, device="cpu") for length in grid)
    down = rows[:, None] - rows[None, :] + grid[0] - 1  # (query row, key row), from 0
    right = cols[:, None] - cols[None, :] + grid[1] - 1
    table = down[:, None, :, None] * (2 * grid[1] - 1) + right[None, :, None, :]  # (row, col, row, col)
    return table.flatten(2).flatten(0, 1)


def sequence_entries(grid: Grid, special: int) -> int:
    """Those of the grid, and three for all special tokens, if there are any."""
    return entries(grid) + (3 if special else 0)


def sequence_offsets(grid: Grid, special: int) -> Tensor:
    """The entries for `special` tokens and then the patches: what has no place has three entries after all offsets.

    The first is for a special query and a patch, the second for a patch that asks a special token, the third for two
    special ones.
    """
    first = entries(grid)
    index = F.pad(offsets(grid), (special, 0, special, 0))
    index[:special] = first
    index[:, :special] = first + 1
    index[:special, :special] = first + 2
    return index
