"""Where one patch looks in one layer: the picture with the patch marked, and a map for each head."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.cm import ScalarMappable
from matplotlib.colors import PowerNorm

from patchwords.inspection.figures.canvas import LINE, POINT, QUIET, Numbers, Sheet, frame, look, picture, png, sheet
from patchwords.inspection.figures.maps import shown_size
from patchwords.pages.wording import percent

AREA = 170 * 170  # pixels of a map, about
NEAR, GAP = 14, 36
LEAST = 170  # pixels of the colour bar, which has words beside it
CAPTION = 28 * POINT
MARK = "#ff3b30"


@dataclass(frozen=True, kw_only=True, slots=True)
class Glance:
    """A picture (height, width, 3), the row and column of a patch in it, and where its heads look."""

    pixels: Numbers
    place: tuple[int, int]
    heads: Sequence[int]  # their numbers
    maps: Numbers  # (heads, rows, cols)
    special: Numbers  # (heads): the weight on special tokens


def patch(glance: Glance, *, heading: str, below: str) -> bytes:
    """The picture at the left, then the heads with one scale, whose steps are finer for small weights."""
    size = height, width = shown_size(glance.pixels.shape[0], glance.pixels.shape[1], AREA)
    across = len(glance.heads) if len(glance.heads) <= 4 else math.ceil(math.sqrt(len(glance.heads)))
    lines = -(-len(glance.heads) // across)
    first, right, down = width + GAP, width + NEAR, height + CAPTION
    colours = ScalarMappable(PowerNorm(0.5, 0, float(glance.maps.max()) or 1), "viridis")
    with look("patch"):
        page = sheet(first + across * right - NEAR, max(lines * down, LEAST), right=150, bottom=18)
        page.title(heading, below)
        _tile(page, glance, glance.pixels, 0, 0, size)
        for number, weights in enumerate(glance.maps):
            left, top = first + number % across * right, number // across * down
            _tile(page, glance, colours.to_rgba(weights), left, top, size)
            _caption(page, glance, number, left, top + height)
        tall = max(LEAST, min(420, lines * down - CAPTION))
        page.scale(colours, "attention weight", left=first + across * right + 14, top=0, height=tall)
        return png(page.figure)


def _tile(page: Sheet, glance: Glance, pixels: Numbers, left: float, top: float, size: tuple[int, int]) -> None:
    """The picture or a map, with the patch that looks in a box."""
    height, width = size
    picture(page.axes, pixels, left, top, width, height)
    frame(page.axes, left, top, width, height, LINE, 0.6)
    tall, wide = height / glance.maps.shape[1], width / glance.maps.shape[2]
    row, col = glance.place
    for color, thick in (("white", 2.4), (MARK, 1.3)):
        frame(page.axes, left + col * wide, top + row * tall, wide, tall, color, thick)


def _caption(page: Sheet, glance: Glance, number: int, left: float, top: float) -> None:
    """Which head it is, and how much of its attention goes to special tokens instead."""
    page.axes.text(left, top + 3 * POINT, f"head {glance.heads[number]}", va="top", fontsize=8)
    if special := glance.special[number]:
        words = f"{percent(float(special))} special"
        page.axes.text(left, top + 14 * POINT, words, va="top", fontsize=7.5, color=QUIET)
