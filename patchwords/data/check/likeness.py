"""Near copies: pictures that look the same after being saved again, made smaller or larger, or coloured otherwise.

The signs of the 64 lowest frequencies of the grey picture are compared. Copies differ in a few of them, strangers in
about half; a pair with few differences is a near copy if the small grey pictures agree as well.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

SIDE = 32  # pixels that the frequencies are taken of
NOISE = 32.0  # a frequency this weak, about two levels of noise, counts as none: symmetric pictures have many of them
MOST_DIFFERENT = 8  # of 64 signs
LEAST_CORRELATION = 0.9  # of the small pictures
LEAST_CONTRAST = 2.0  # levels of deviation; below that a picture is as good as empty, and all empty ones look alike
BLOCK = 16  # rows compared at a time: their differences stay in the processor's cache
NEIGHBOURS = 8  # kept for a picture: enough to hold a group together, and few where thousands are alike

FREQUENCIES = sorted(np.ndindex(16, 16), key=lambda place: (sum(place), place))[1:65]  # all but the mean
ROWS, COLS = np.array(FREQUENCIES).T
WAVES = np.cos(np.pi / SIDE * np.arange(16)[:, None] * (np.arange(SIDE) + 0.5))  # (frequencies, pixels)


class Look(NamedTuple):
    """What is kept of a picture to compare it with others."""

    signs: int  # 64 of them
    small: NDArray[np.uint8]  # 16x16 grey


def look(image: Image.Image) -> Look:
    grey = image.convert("L").resize((SIDE, SIDE), Image.Resampling.BILINEAR)
    strengths = WAVES @ np.asarray(grey, dtype=np.float64) @ WAVES.T
    signs = np.packbits(strengths[ROWS, COLS] > NOISE).view(np.uint64)[0]
    return Look(int(signs), np.asarray(grey.resize((SIDE // 2, SIDE // 2), Image.Resampling.BOX)))


def near_pairs(looks: list[Look]) -> Iterator[tuple[int, int]]:
    """Pairs that are near copies; of many that are all alike, enough pairs to connect them."""
    if not looks:
        return
    signs = np.array([each.signs for each in looks], dtype=np.uint64)
    small, contrast = _standardised(looks)
    for start in range(0, len(signs), BLOCK):
        different = np.bitwise_count(signs[start : start + BLOCK, None] ^ signs[None, start:])
        for row in np.flatnonzero((different <= MOST_DIFFERENT).sum(axis=1) > 1):  # one is the picture itself
            first = start + int(row)
            others = start + row + 1 + np.flatnonzero(different[row, row + 1 :] <= MOST_DIFFERENT)
            alike = (small[others] @ small[first] >= LEAST_CORRELATION) & (contrast[others] >= LEAST_CONTRAST)
            if contrast[first] >= LEAST_CONTRAST:
                yield from ((first, int(second)) for second in others[alike][:NEIGHBOURS])


def _standardised(looks: list[Look]) -> tuple[NDArray[np.float32], NDArray[Any]]:
    """Small pictures as vectors whose products are correlations, and their contrasts."""
    small = np.array([each.small.ravel() for each in looks], dtype=np.float32)
    contrast = small.std(axis=1)
    small -= small.mean(axis=1, keepdims=True)
    small /= np.maximum(np.linalg.norm(small, axis=1, keepdims=True), 1e-6)
    return small, contrast


def groups(count: int, pairs: Iterator[tuple[int, int]]) -> list[list[int]]:
    """The numbers below `count` that pairs connect, in order; who is alone is left out."""
    leader = list(range(count))

    def find(number: int) -> int:
        while leader[number] != number:
            leader[number] = number = leader[leader[number]]
        return number

    for first, second in pairs:
        first, second = sorted((find(first), find(second)))
        leader[second] = first
    found: dict[int, list[int]] = {}
    for number in range(count):
        found.setdefault(find(number), []).append(number)
    return [group for group in found.values() if len(group) > 1]
