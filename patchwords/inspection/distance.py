"""Section 4.5, Figure 7 (right), and App. D.7: how far attention reaches in the picture, by layer and head."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from patchwords.errors import DataError
from patchwords.inspection.positions import steps
from patchwords.layers.look import Look
from patchwords.layers.tokens import Grid
from patchwords.models.model import Model

PICTURES = 128  # as many as the figure was made with


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Distances:
    """Mean attention distances in pixels, over all queries and pictures."""

    pixels: NDArray[np.float64]  # (layers, heads)
    pictures: int
    grid: Grid
    cell: tuple[int, int]  # height and width of a patch, in pixels of the picture
    uniform: float  # what a head would have that looks at all patches alike


def between(grid: Grid, cell: tuple[int, int]) -> Tensor:
    """How far the patches are from one another: (patches, patches), Euclidean, in pixels."""
    down, right = steps(*grid)
    return torch.hypot(down.double() * cell[0], right.double() * cell[1])


def mean_distance(weights: Tensor, prefix: int, distances: Tensor, rows: slice) -> Tensor:
    """From each patch among these rows the mean distance to what it looks at: (batch, heads, patches among the rows).

    `weights` (batch, heads, rows, tokens) are those of the tokens in the slice `rows`. Special tokens have no place:
    they are left out as queries and as keys, and a row is divided by what remains of it. Otherwise a head that looks
    at the class token would seem to look near.
    """
    first = max(rows.start, prefix)
    last = max(rows.stop, first)
    seen = weights[:, :, first - rows.start :, prefix:]  # (batch, heads, queries, patches)
    total = seen.sum(-1).clamp(min=torch.finfo(seen.dtype).tiny)  # no patch seen at all: the distance is 0
    return (seen * distances[first - prefix : last - prefix]).sum(-1) / total


@torch.no_grad()
def attention_distance(
    model: Model, batches: Iterable[Tensor], *, progress: Callable[[int], None] = lambda pictures: None
) -> Distances:
    """The mean attention distance of every layer and head over batches of pictures as the model takes them.

    `progress` hears how many pictures are done. Weights are made in pieces and never kept.
    """
    total: NDArray[np.float64] | float = 0.0
    pictures = 0
    measured = cache(between)  # once, since all pictures have one size
    for images in batches:
        gaze = model.gaze(images)
        grid, cell = gaze.looks[0].tokens.grid, gaze.cell
        distances = measured(grid, cell)
        places = distances.to(images.device, torch.float32)
        total = total + np.stack([_sums(look, places) for look in gaze.looks])
        pictures += len(images)
        progress(pictures)
    if not pictures:
        raise DataError("no pictures came: the mean attention distance needs at least one")
    return Distances(
        pixels=np.asarray(total / pictures), pictures=pictures, grid=grid, cell=cell, uniform=float(distances.mean())
    )


def _sums(look: Look, distances: Tensor) -> NDArray[np.float64]:
    """The mean over the queries, the sum over the pictures: (heads)."""
    total = np.zeros(look.heads)  # not on the device, which may know no double precision (mps)
    for heads, rows, weights in look.pieces():
        total[heads] += mean_distance(weights, look.tokens.prefix, distances, rows).sum((0, 2)).cpu().numpy()
    return total / len(distances)
