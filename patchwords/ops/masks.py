"""Which patches are hidden: at random (the ViT paper, B.1.2; MAE) or in blocks (BEiT, algorithm 1).

Every mask is a pure function of (seed, view, index): a row a sample, and exactly as many hidden patches in every row.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from patchwords.ops import draws
from patchwords.ops.draws import Numbers, Part

Grid = tuple[int, int]
Bools = NDArray[np.bool_]
Places = NDArray[np.int64]  # of patches, row by row

TRIES = 40  # blocks that are tried for a sample
ASPECT = (0.3, 1 / 0.3)  # of a block's height to its width: BEiT's
TURN = 4  # draws for a block


def noise(seed: int, views: Part, indices: Part, patches: int) -> Numbers:
    """A number in [0, 1) for every patch: (batch, patches)."""
    return draws.uniform("mask", seed, views, indices, count=patches)


def lowest(numbers: Numbers, count: int) -> Places:
    """The places of the `count` lowest numbers of every row, in the order of these: (batch, count)."""
    chosen: Places = np.argsort(numbers, axis=1, kind="stable")[:, :count]
    return chosen


def random(seed: int, views: Part, indices: Part, *, patches: int, count: int) -> Bools:
    """`count` patches of every row, any of them as likely: (batch, patches)."""
    numbers = noise(seed, views, indices, patches)
    mask = np.zeros(numbers.shape, dtype=bool)
    np.put_along_axis(mask, lowest(numbers, count), True, axis=1)
    return mask


class Blocks(NamedTuple):
    """The blocks that were drawn, (batch, tries) each, and which of them were put."""

    area: Numbers
    aspect: Numbers  # height to width
    top: Places
    left: Places
    rows: Places
    cols: Places
    put: Bools


class Blockwise(NamedTuple):
    """A mask (batch, patches), and the blocks that it is made of."""

    mask: Bools
    blocks: Blocks


def blockwise(
    seed: int,
    views: Part,
    indices: Part,
    *,
    grid: Grid,
    count: int,
    least: int = 16,
    most: int = 75,
    aspect: tuple[float, float] = ASPECT,
) -> Blockwise:
    """Blocks of `least` to `most` patches, put one over the other until `count` patches are hidden.

    As in BEiT, a block's area is uniform between `least` and what is left (so that the last ones may be smaller than
    `least`), its aspect log-uniform, both are rounded to whole patches, and it is put where it hides a new patch and no
    more than are left. Where none of the tries fits, the patches that are left are hidden one by one, at random places.
    """
    numbers = draws.uniform("blocks", seed, views, indices, count=TURN * TRIES)
    numbers = numbers.reshape(-1, TRIES, TURN)
    mask = np.zeros((numbers.shape[0], *grid), dtype=bool)
    tries = [_try(mask, numbers[:, turn], count, least, most, aspect) for turn in range(TRIES)]
    blocks = Blocks(*(np.stack(column, axis=1) for column in zip(*tries, strict=True)))
    return Blockwise(
        _filled(mask.reshape(-1, grid[0] * grid[1]), noise(seed, views, indices, mask[0].size), count), blocks
    )


def _try(
    mask: Bools, numbers: Numbers, count: int, least: int, most: int, aspect: tuple[float, float]
) -> tuple[NDArray[Any], ...]:
    """One block for every sample, put into `mask` where it fits."""
    height, width = mask.shape[1:]
    wanting = count - mask.sum((1, 2))
    area = least + numbers[:, 0] * (np.minimum(most, wanting) - least)
    shape = np.exp(np.log(aspect[0]) + numbers[:, 1] * (np.log(aspect[1]) - np.log(aspect[0])))
    rows = np.rint(np.sqrt(area * shape)).astype(np.int64)
    cols = np.rint(np.sqrt(area / shape)).astype(np.int64)
    top = np.floor(numbers[:, 2] * np.maximum(height - rows + 1, 1)).astype(np.int64)
    left = np.floor(numbers[:, 3] * np.maximum(width - cols + 1, 1)).astype(np.int64)
    block = _span(top, rows, height)[:, :, None] & _span(left, cols, width)[:, None, :]
    new = (block & ~mask).sum((1, 2))
    put = (rows < height) & (cols < width) & (new > 0) & (new <= wanting)
    mask |= block & put[:, None, None]
    return area, shape, top, left, rows, cols, put


def _span(start: Places, length: Places, of: int) -> Bools:
    """(batch, of): which places lie from `start` on, `length` long."""
    place = np.arange(of)
    inside: Bools = (place >= start[:, None]) & (place < (start + length)[:, None])
    return inside


def _filled(mask: Bools, numbers: Numbers, count: int) -> Bools:
    """What a row lacks, at the lowest of its numbers where nothing is hidden yet."""
    order = np.argsort(numbers + mask, axis=1, kind="stable")  # hidden ones come last
    wanting = count - mask.sum(1, keepdims=True)
    filled = mask.copy()
    np.put_along_axis(filled, order, np.take_along_axis(mask, order, 1) | (np.arange(mask.shape[1]) < wanting), axis=1)
    return filled
