"""What the bias tables of a Swin tell: its window, and which pictures such windows are for."""

from collections.abc import Sequence

from patchwords.errors import ModelError
from patchwords.models.swin import MOST_WINDOW, grids
from patchwords.ops.offsets import entries
from patchwords.weights.maps.swin import window_of

Pair = tuple[int, int]


def found(tables: Sequence[int], patch: Pair, pictures: Sequence[Pair]) -> tuple[Pair, Pair]:
    """The square window, and the first of these pictures on which each stage has a table of this length with it.

    Where a map is smaller than the window, the window has the map's size.
    """
    divided = [(tall, wide) for tall, wide in pictures if tall % patch[0] == wide % patch[1] == 0]
    for image in divided:
        maps = grids(image, patch, len(tables))
        for side in range(1, MOST_WINDOW + 1):
            if [entries((min(side, rows), min(side, cols))) for rows, cols in maps] == list(tables):
                return (side, side), image
    sizes = " or ".join(f"{height}x{width}" for height, width in pictures)
    raise ModelError(
        f"bias tables of {', '.join(map(str, tables))} offsets are for no square window on pictures of {sizes}: "
        f"say their size with trained_at=(height, width), or --image"
    )


def smallest(tables: Sequence[int], patch: Pair) -> Pair:
    """The picture whose last map one window covers: that of the published models."""
    side = max(window_of(tables[-1]), 1) * 2 ** (len(tables) - 1)
    return side * patch[0], side * patch[1]
