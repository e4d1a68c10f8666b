"""He et al., 2022, figures 2 to 4: pictures, what is left of them, and what was made of that."""

from collections.abc import Sequence
from dataclasses import dataclass

from patchwords.inspection.figures.canvas import (
    INK,
    LINE,
    MARGIN,
    POINT,
    QUIET,
    Numbers,
    frame,
    look,
    picture,
    png,
    sheet,
)
from patchwords.inspection.figures.lettering import fitted
from patchwords.inspection.figures.maps import shown_size

COLUMNS = ("original", "masked", "reconstructed")
NEAR, CAPTION, HEADS = 10, 16 * POINT, 15 * POINT  # pixels between pictures, below them and above them
AREA = 240 * 240  # pixels of a picture, about


@dataclass(frozen=True, kw_only=True, slots=True)
class Restored:
    """One picture three times, (height, width, 3) each, and its file."""

    original: Numbers
    masked: Numbers
    reconstructed: Numbers
    name: str


def reconstructions(rows: Sequence[Restored], *, heading: str, below: str) -> bytes:
    """A row a picture; all pictures have one size."""
    tall, wide, _ = rows[0].original.shape
    height, width = shown_size(tall, wide, AREA)
    across, fall = width + NEAR, height + CAPTION
    with look("reconstructions"):
        page = sheet(len(COLUMNS) * across - NEAR, HEADS + len(rows) * fall)
        room = float(page.size[0]) - 2 * MARGIN
        page.title(fitted(heading, room, 11, "bold"), fitted(below, room, 8.5))
        for number, column in enumerate(COLUMNS):
            page.axes.text(number * across, 0, column, va="top", fontsize=9, color=INK)
        for number, row in enumerate(rows):
            top = HEADS + number * fall
            for place, pixels in enumerate((row.original, row.masked, row.reconstructed)):
                picture(page.axes, pixels, place * across, top, width, height)
                frame(page.axes, place * across, top, width, height, LINE, 0.6)
            name = fitted(row.name, len(COLUMNS) * across - NEAR, 7.5)
            page.axes.text(0, top + height + 2 * POINT, name, va="top", fontsize=7.5, color=QUIET)
        return png(page.figure)
