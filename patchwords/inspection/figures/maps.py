"""Figures 6 and 14: pictures beside what the model looks at in them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LinearSegmentedColormap, Normalize

from patchwords.inspection.figures.canvas import (
    INK,
    LINE,
    POINT,
    QUIET,
    Numbers,
    Sheet,
    frame,
    look,
    picture,
    png,
    sheet,
)
from patchwords.inspection.figures.lettering import fitted
from patchwords.inspection.overlay import DARK

AREA = 210 * 210  # pixels of a picture, about
CAPTION = 26 * POINT
NEAR, GAP, FALL = 8, 30, 14
LEAST = 260  # pixels of the colour bar, which has words beside it
WIDE = 300  # pixels of a picture of which two pairs do not stand beside each other


@dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    """A picture (height, width, 3), the same with light where the model looks, its file and what is said of it."""

    pixels: Numbers
    overlay: Numbers
    name: str
    verdict: str = ""


def maps(seen: Sequence[Seen], *, heading: str, below: str, scale: str) -> bytes:
    """Pairs in one column, or in two where there are more than three; all pictures have one size."""
    height, width = shown_size(*seen[0].pixels.shape[:2])
    across = 1 if len(seen) <= 3 or width > WIDE else 2
    pair, fall = 2 * width + NEAR, height + CAPTION + FALL
    with look("maps"):
        lines = -(-len(seen) // across)
        page = sheet(across * (pair + GAP) - GAP, max(lines * fall - FALL, LEAST), right=150)
        page.title(heading, below)
        for number, each in enumerate(seen):
            left, top = number % across * (pair + GAP), number // across * fall
            for pixels, start in ((each.pixels, left), (each.overlay, left + width + NEAR)):
                picture(page.axes, pixels, start, top, width, height)
                frame(page.axes, start, top, width, height, LINE, 0.6)
            _caption(page, each, left, top + height, pair)
        light = ScalarMappable(Normalize(0, 1), LinearSegmentedColormap.from_list("light", [(DARK,) * 3, (1, 1, 1)]))
        page.scale(
            light, scale, left=across * (pair + GAP), top=0, height=max(LEAST, min(420, lines * fall - FALL - CAPTION))
        )
        return png(page.figure)


def shown_size(rows: int, cols: int, area: float = AREA) -> tuple[int, int]:
    """Height and width on the sheet: the same shape, about the same area for all."""
    times = float(np.sqrt(area / (rows * cols)))
    if times >= 1:
        times = float(int(times))  # whole steps, so that every pixel is as large
    return max(1, round(rows * times)), max(1, round(cols * times))


def _caption(page: Sheet, seen: Seen, left: float, top: float, width: float) -> None:
    """What the model says above, the file beneath."""
    lines = [(seen.verdict, 8.5, INK)] * bool(seen.verdict) + [(seen.name, 7.5, QUIET)]
    for number, (text, size, color) in enumerate(lines):
        down = top + (3 + 11.5 * number) * POINT
        page.axes.text(left, down, fitted(text, width, size), va="top", fontsize=size, color=color)
