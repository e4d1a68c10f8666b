"""Figure 7, left: principal components of the filters that see the pixels, as tiles."""

from collections.abc import Sequence

from patchwords.inspection.figures.canvas import LINE, POINT, QUIET, Numbers, frame, look, picture, png, sheet
from patchwords.pages.wording import percent, plural

ACROSS = 7  # tiles in a row, as in the paper
SIDE = 112  # pixels of a tile, about
GAP = 18
CAPTION = 16 * POINT


def filters(tiles: Numbers, shares: Sequence[float], *, heading: str) -> bytes:
    """Tiles (n, height, width, 3) from 0 to 1, each with its share of the variance beneath it."""
    rows, cols = tiles.shape[1:3]
    times = max(1, SIDE // max(rows, cols))
    height, width = rows * times, cols * times
    right, down = max(width, SIDE) + GAP, height + CAPTION
    across, lines = min(len(tiles), ACROSS), -(-len(tiles) // ACROSS)
    with look("filters"):
        page = sheet(across * right - GAP, lines * down, bottom=12)
        page.title(heading, f"{plural(len(tiles), 'component')} with {percent(sum(shares))} of the variance")
        for number, (tile, share) in enumerate(zip(tiles, shares, strict=True)):
            left, top = number % ACROSS * right, number // ACROSS * down
            picture(page.axes, tile, left, top, width, height)
            frame(page.axes, left, top, width, height, LINE, 0.6)
            page.axes.text(left, top + height + 5, f"{number + 1}", va="top", fontsize=7.5)
            page.axes.text(
                left + SIDE, top + height + 5, percent(share), va="top", ha="right", fontsize=7.5, color=QUIET
            )
        return png(page.figure)
