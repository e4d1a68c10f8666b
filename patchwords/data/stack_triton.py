"""`patchwords.data.stack` as two Triton kernels, along the rows and along the columns, as Pillow does it.

Every picture is read where it lies, and no more of it than its box can see.
"""

from collections.abc import Sequence

import numpy as np
import torch
import triton
import triton.language as tl
from numpy.typing import NDArray
from torch import Tensor

from patchwords.data.kernels import KERNELS
from patchwords.data.picture import Size
from patchwords.data.preprocess import Interpolation
from patchwords.data.stack import regions
from patchwords.data.transfer import onto

ROWS, COLS = 16, 32  # pixels of a picture that are made together


def cut_pictures(
    pictures: Sequence[Tensor], boxes: NDArray[np.float64], size: Size, interpolation: Interpolation
) -> Tensor:
    """uint8 (3, height, width) each, and a box of each in its pixels, to (n, 3, *size)."""
    device, count, (height, width) = pictures[0].device, len(pictures), size
    sides = np.array([each.shape[1:] for each in pictures], dtype=np.int64)
    region = regions(boxes, sides, size, interpolation)
    first, rows = region.start[:, 0], region.stop[:, 0] - region.start[:, 0]
    lying = np.array([(each.data_ptr(), *each.stride()) for each in pictures], dtype=np.int64)
    begins = (np.cumsum(rows) - rows) * 3 * width  # in what lies between
    told = np.concatenate([lying, sides, first[:, None], rows[:, None], begins[:, None]], 1)
    places, corners = onto([told], device), onto([boxes.astype(np.float32)], device)  # (n, 9) and (n, 4)
    between = torch.empty(int(rows.sum()) * 3 * width, dtype=torch.uint8, device=device)
    out = torch.empty(count, 3, height, width, dtype=torch.uint8, device=device)
    kind, reach = list(KERNELS).index(interpolation), KERNELS[interpolation][1]
    across = triton.cdiv(width, COLS)
    _across[(triton.cdiv(int(rows.max()), ROWS) * across, count)](
        places, corners, between, width, kind, reach, ROWS, COLS
    )
    _down[(triton.cdiv(height, ROWS) * across, count)](
        places, corners, between, out, height, width, kind, reach, ROWS, COLS
    )
    return out


@triton.jit
def _weight(x, kind: tl.constexpr):  # type: ignore[no-untyped-def]
    """How much a pixel at this distance counts: the functions of `patchwords.data.kernels`, zero beyond their reach."""
    x = tl.abs(x)
    if kind == 0:
        return tl.maximum(1 - x, 0.0)
    if kind == 1:
        near = (1.5 * x - 2.5) * x * x + 1
        far = ((-0.5 * x + 2.5) * x - 4) * x + 2
        return tl.where(x < 1, near, tl.where(x < 2, far, 0.0))
    turn = 3.141592653589793 * tl.maximum(x, 1e-5)
    return tl.where(x < 3, tl.sin(turn) / turn * (tl.sin(turn / 3) / (turn / 3)), 0.0)


@triton.jit
def _sum(first, centre, wide, side, taps, kind: tl.constexpr):  # type: ignore[no-untyped-def]
    """Of the weights of all pixels that count."""
    total = tl.zeros_like(centre)
    for tap in range(taps):
        place = first + tap
        inside = (place >= 0) & (place < side)
        total += tl.where(inside, _weight((place + 0.5 - centre) / wide, kind), 0.0)
    return tl.maximum(total, 1e-6)


@triton.jit
def _across(  # type: ignore[no-untyped-def]
    places, corners, between, width,
    kind: tl.constexpr, reach: tl.constexpr, rows: tl.constexpr, cols: tl.constexpr,
):  # fmt: skip
    """A tile of the rows that a box can see, along them to whole levels."""
    tile, picture = tl.program_id(0), tl.program_id(1).to(tl.int64)
    place, corner = places + picture * 9, corners + picture * 4
    count = tl.load(place + 7).to(tl.int32)
    many = tl.cdiv(width, cols)
    if tile // many * rows >= count:
        return
    row, x = tile // many * rows + tl.arange(0, rows), tile % many * cols + tl.arange(0, cols)
    base = tl.load(place).to(tl.pointer_type(tl.uint8))
    channel, down, along = tl.load(place + 1), tl.load(place + 2), tl.load(place + 3)
    broad, first = tl.load(place + 5).to(tl.int32), tl.load(place + 6)
    left, right = tl.load(corner + 1), tl.load(corner + 3)
    step = (right - left) / width
    wide, middle = tl.maximum(step, 1.0), left + (x + 0.5) * step
    start, taps = tl.floor(middle - reach * wide).to(tl.int32), (2 * reach * wide).to(tl.int32) + 2
    total = _sum(start, middle, wide, broad, taps, kind)
    line = base + (first + row)[:, None] * down
    red = tl.zeros((rows, cols), tl.float32)
    green = tl.zeros((rows, cols), tl.float32)
    blue = tl.zeros((rows, cols), tl.float32)
    for tap in range(taps):
        col = start + tap
        inside = (row < count)[:, None] & ((col >= 0) & (col < broad))[None, :]
        weight = (_weight((col + 0.5 - middle) / wide, kind) / total)[None, :]
        pixel = line + col.to(tl.int64)[None, :] * along
        red += weight * tl.load(pixel, inside, 0).to(tl.float32)
        green += weight * tl.load(pixel + channel, inside, 0).to(tl.float32)
        blue += weight * tl.load(pixel + 2 * channel, inside, 0).to(tl.float32)
    there = between + tl.load(place + 8) + row[:, None] * width + x[None, :]
    plane = count.to(tl.int64) * width
    wanted = (row < count)[:, None] & (x < width)[None, :]
    tl.store(there, _level(red).to(tl.uint8), wanted)
    tl.store(there + plane, _level(green).to(tl.uint8), wanted)
    tl.store(there + 2 * plane, _level(blue).to(tl.uint8), wanted)


@triton.jit
def _down(  # type: ignore[no-untyped-def]
    places, corners, between, out, height, width,
    kind: tl.constexpr, reach: tl.constexpr, rows: tl.constexpr, cols: tl.constexpr,
):  # fmt: skip
    """A tile of a picture, along the columns of what the rows have become."""
    tile, picture = tl.program_id(0), tl.program_id(1).to(tl.int64)
    place, corner = places + picture * 9, corners + picture * 4
    many = tl.cdiv(width, cols)
    y, x = tile // many * rows + tl.arange(0, rows), tile % many * cols + tl.arange(0, cols)
    tall, broad = tl.load(place + 4).to(tl.int32), tl.load(place + 5).to(tl.int32)
    first, count = tl.load(place + 6).to(tl.int32), tl.load(place + 7).to(tl.int32)
    top, left = tl.load(corner), tl.load(corner + 1)
    bottom, right = tl.load(corner + 2), tl.load(corner + 3)
    step = (bottom - top) / height
    wide, middle = tl.maximum(step, 1.0), top + (y + 0.5) * step
    start, taps = tl.floor(middle - reach * wide).to(tl.int32), (2 * reach * wide).to(tl.int32) + 2
    total = _sum(start, middle, wide, tall, taps, kind)
    base, plane = between + tl.load(place + 8) + x[None, :], count.to(tl.int64) * width
    red = tl.zeros((rows, cols), tl.float32)
    green = tl.zeros((rows, cols), tl.float32)
    blue = tl.zeros((rows, cols), tl.float32)
    for tap in range(taps):
        row = start + tap - first
        inside = (row >= 0) & (row < count)  # beyond them nothing counts
        weight = tl.where(inside, _weight((row + first + 0.5 - middle) / wide, kind) / total, 0.0)[:, None]
        pixel, seen = base + row[:, None] * width, inside[:, None] & (x < width)[None, :]
        red += weight * tl.load(pixel, seen, 0).to(tl.float32)
        green += weight * tl.load(pixel + plane, seen, 0).to(tl.float32)
        blue += weight * tl.load(pixel + 2 * plane, seen, 0).to(tl.float32)
    across = left + (x + 0.5) * ((right - left) / width)
    shown = ((middle >= 0) & (middle <= tall))[:, None] & ((across >= 0) & (across <= broad))[None, :]
    there = out + picture * 3 * height * width + y[:, None] * width + x[None, :]
    wanted = (y < height)[:, None] & (x < width)[None, :]
    tl.store(there, tl.where(shown, _level(red), 0.0).to(tl.uint8), wanted)
    tl.store(there + height * width, tl.where(shown, _level(green), 0.0).to(tl.uint8), wanted)
    tl.store(there + 2 * height * width, tl.where(shown, _level(blue), 0.0).to(tl.uint8), wanted)


@triton.jit
def _level(x):  # type: ignore[no-untyped-def]
    """The nearest of the 256 levels."""
    return tl.minimum(tl.maximum(tl.floor(x + 0.5), 0.0), 255.0)
