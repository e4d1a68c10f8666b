"""Figure 7, centre: how alike the position embedding of every patch is to all others, a grid of grids."""

from typing import NamedTuple

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize

from patchwords.inspection.figures.canvas import DPI, Numbers, look, picture, png, sheet

MOST = 16  # tiles a side that can still be told apart
AREA = 5.4 * DPI  # pixels of the longer side, about
LEAST = 200  # pixels beside a low board, for the words there
GAP = 4


class Steps(NamedTuple):
    """Every how many-th row and column of patches has tiles."""

    down: int
    across: int


def steps(rows: int, cols: int) -> Steps:
    return Steps(-(-rows // MOST), -(-cols // MOST))


def positions(similarity: Numbers) -> bytes:
    """Cosine similarities (rows, cols, rows, cols): a tile for every patch, at its place."""
    rows, cols = similarity.shape[:2]
    every = steps(rows, cols)
    down, across = np.arange(every.down // 2, rows, every.down), np.arange(every.across // 2, cols, every.across)
    times = max(1, int(min((AREA / len(down) - GAP) / rows, (AREA / len(across) - GAP) / cols)))
    board = _board(similarity[np.ix_(down, across)], times)
    height, width = board.shape
    room = max(height, LEAST)
    with look("positions"):
        page = sheet(width, room, left=92, right=150, bottom=84)
        page.title("How alike the position embeddings are", _below(rows, cols, every))
        axes = page.place(0, (room - height) / 2, width, height)
        axes.set(xlim=(0, width), ylim=(height, 0))
        colours = ScalarMappable(Normalize(-1, 1), matplotlib.colormaps["viridis"].with_extremes(bad="white"))
        picture(axes, board, 0, 0, width, height, cmap=colours.cmap, norm=colours.norm)
        _numbered(axes, down, across)
        page.scale(colours, "cosine similarity", left=width + 26, top=0, height=room)
        return png(page.figure)


def _board(tiles: Numbers, times: int) -> Numbers:
    """All tiles on one board, each cell so many pixels a side, nothing between them."""
    down, across, rows, cols = tiles.shape
    high, wide = rows * times + GAP, cols * times + GAP
    board = np.full((down * high, across * wide), np.nan)
    for line in range(down):
        for place in range(across):
            top, left = line * high, place * wide
            cells = tiles[line, place].repeat(times, 0).repeat(times, 1)
            board[top : top + rows * times, left : left + cols * times] = cells
    return board[:-GAP, :-GAP]


def _below(rows: int, cols: int, every: Steps) -> str:
    kept = [f"every {ordinal(step)} {word}" for step, word in zip(every, ("row", "column"), strict=True) if step > 1]
    return f"each tile: the patch at its place, with all {rows}×{cols}{'; ' if kept else ''}{' and '.join(kept)}"


def ordinal(number: int) -> str:
    return {2: "2nd", 3: "3rd"}.get(number, f"{number}th")


def _numbered(axes: Axes, down: Numbers, across: Numbers) -> None:
    """The numbers of the rows and columns at the middles of the tiles."""
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    for axis, numbers, side in ((axes.yaxis, down, axes.get_ylim()[0]), (axes.xaxis, across, axes.get_xlim()[1])):
        tile = (side + GAP) / len(numbers)
        axis.set_ticks(np.arange(len(numbers)) * tile + (tile - GAP) / 2, [str(number + 1) for number in numbers])
    axes.set(xlabel="input patch column", ylabel="input patch row")
