"""Section 4.5, Figure 7 (centre), and App. D.4, Figure 10: how alike the position embeddings of two patches are."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, kw_only=True, slots=True)
class Structure:
    """Mean similarities of two places, or None where the grid has no such pair."""

    near: float | None  # direct neighbours: one step up, down, left or right
    far: float | None  # at least half the rows or half the columns apart, and no neighbours
    same_row_or_column: float | None
    elsewhere: float | None  # another row and another column


def similarity(table: Tensor) -> Tensor:
    """The cosine between all rows of a table (rows, cols, width): (rows, cols, rows, cols), in double precision.

    A place that adds nothing is like none, not even itself: its cosines are 0.
    """
    flat = table.detach().double().flatten(0, 1)
    lengths = torch.linalg.vector_norm(flat, dim=1, keepdim=True)
    units = torch.where(lengths > 0, flat / lengths, 0)
    grid = table.shape[:2]
    return (units @ units.mT).clamp(-1, 1).unflatten(1, grid).unflatten(0, grid)


def structure(similarity: Tensor) -> Structure:
    """Whether near places are more alike than far ones, and places of one row or column more than others."""
    rows, cols = similarity.shape[:2]
    down, right = steps(rows, cols)
    near = down + right == 1
    far = ((2 * down >= rows) | (2 * right >= cols)) & (down + right > 1)
    line = ((down == 0) | (right == 0)) & (down + right > 0)
    elsewhere = (down > 0) & (right > 0)
    flat = similarity.flatten(2).flatten(0, 1).cpu()
    return Structure(
        near=_mean(flat[near]),
        far=_mean(flat[far]),
        same_row_or_column=_mean(flat[line]),
        elsewhere=_mean(flat[elsewhere]),
    )


def steps(rows: int, cols: int) -> tuple[Tensor, Tensor]:
    """How many rows and how many columns lie between two places of a grid, each (places, places)."""
    row, col = torch.meshgrid(torch.arange(rows), torch.arange(cols), indexing="ij")
    row, col = row.flatten(), col.flatten()
    return (row[:, None] - row).abs(), (col[:, None] - col).abs()


def _mean(values: Tensor) -> float | None:
    return float(values.mean()) if len(values) else None
