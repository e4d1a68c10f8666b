"""`patchwords.data.stack` as one Triton kernel, which reads every picture where it lies and makes no stack of them."""

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
from patchwords.data.transfer import onto

ROWS, COLS = 16, 32  # pixels of a picture that are made together


def cut_pictures(
    pictures: Sequence[Tensor], boxes: NDArray[np.float64], size: Size, interpolation: Interpolation
) -> Tensor:
    """uint8 (3, height, width) each, and a box of each in its pixels, to (n, 3, *size)."""
    device, count = pictures[0].device, len(pictures)
    lying = np.array([(each.data_ptr(), *each.stride(), *each.shape[1:]) for each in pictures], dtype=np.int64)
    places, corners = onto([lying], device), onto([boxes.astype(np.float32)], device)  # (n, 6) and (n, 4)
    out = torch.empty(count, 3, *size, dtype=torch.uint8, device=device)
    tiles = triton.cdiv(size[0], ROWS) * triton.cdiv(size[1], COLS)
    kind, reach = list(KERNELS).index(interpolation), KERNELS[interpolation][1]
    _cut[(tiles, count)](places, corners, out, *size, kind, reach, ROWS, COLS)
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
def _cut(  # type: ignore[no-untyped-def]
    places, corners, out, height, width,
    kind: tl.constexpr, reach: tl.constexpr, rows: tl.constexpr, cols: tl.constexpr,
):  # fmt: skip
    """A tile of one picture, all channels; along the rows to whole levels, then along the columns, as Pillow does."""
    tile, picture = tl.program_id(0), tl.program_id(1).to(tl.int64)
    across = tl.cdiv(width, cols)
    y, x = tile // across * rows + tl.arange(0, rows), tile % across * cols + tl.arange(0, cols)
    place, corner = places + picture * 6, corners + picture * 4
    base = tl.load(place).to(tl.pointer_type(tl.uint8))
    channel, down, along = tl.load(place + 1), tl.load(place + 2), tl.load(place + 3)
    tall, broad = tl.load(place + 4).to(tl.int32), tl.load(place + 5).to(tl.int32)
    top, left = tl.load(corner), tl.load(corner + 1)
    bottom, right = tl.load(corner + 2), tl.load(corner + 3)
    step_y, step_x = (bottom - top) / height, (right - left) / width
    wide_y, wide_x = tl.maximum(step_y, 1.0), tl.maximum(step_x, 1.0)
    middle_y, middle_x = top + (y + 0.5) * step_y, left + (x + 0.5) * step_x
    first_y = tl.floor(middle_y - reach * wide_y).to(tl.int32)
    first_x = tl.floor(middle_x - reach * wide_x).to(tl.int32)
    taps_y, taps_x = (2 * reach * wide_y).to(tl.int32) + 2, (2 * reach * wide_x).to(tl.int32) + 2
    sum_y = _sum(first_y, middle_y, wide_y, tall, taps_y, kind)
    sum_x = _sum(first_x, middle_x, wide_x, broad, taps_x, kind)
    red = tl.zeros((rows, cols), tl.float32)
    green = tl.zeros((rows, cols), tl.float32)
    blue = tl.zeros((rows, cols), tl.float32)
    for tap_y in range(taps_y):
        place_y = first_y + tap_y
        is_row = (place_y >= 0) & (place_y < tall)
        weight_y = _weight((place_y + 0.5 - middle_y) / wide_y, kind) / sum_y
        line = base + place_y.to(tl.int64)[:, None] * down
        red_x = tl.zeros((rows, cols), tl.float32)
        green_x = tl.zeros((rows, cols), tl.float32)
        blue_x = tl.zeros((rows, cols), tl.float32)
        for tap_x in range(taps_x):
            place_x = first_x + tap_x
            is_inside = is_row[:, None] & ((place_x >= 0) & (place_x < broad))[None, :]
            weight_x = (_weight((place_x + 0.5 - middle_x) / wide_x, kind) / sum_x)[None, :]
            pixel = line + place_x.to(tl.int64)[None, :] * along
            red_x += weight_x * tl.load(pixel, is_inside, 0).to(tl.float32)
            green_x += weight_x * tl.load(pixel + channel, is_inside, 0).to(tl.float32)
            blue_x += weight_x * tl.load(pixel + 2 * channel, is_inside, 0).to(tl.float32)
        weight_y = tl.where(is_row, weight_y, 0.0)[:, None]
        red += weight_y * _level(red_x)
        green += weight_y * _level(green_x)
        blue += weight_y * _level(blue_x)
    shown = ((middle_y >= 0) & (middle_y <= tall))[:, None] & ((middle_x >= 0) & (middle_x <= broad))[None, :]
    there = out + picture * 3 * height * width + y[:, None] * width + x[None, :]
    wanted = (y < height)[:, None] & (x < width)[None, :]
    tl.store(there, tl.where(shown, _level(red), 0.0).to(tl.uint8), wanted)
    tl.store(there + height * width, tl.where(shown, _level(green), 0.0).to(tl.uint8), wanted)
    tl.store(there + 2 * height * width, tl.where(shown, _level(blue), 0.0).to(tl.uint8), wanted)


@triton.jit
def _level(x):  # type: ignore[no-untyped-def]
    """The nearest of the 256 levels."""
    return tl.minimum(tl.maximum(tl.floor(x + 0.5), 0.0), 255.0)
