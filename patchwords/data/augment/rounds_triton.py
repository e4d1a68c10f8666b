"""`rounds.run` with one Triton kernel a round, after another has looked at pictures that must be known as a whole.

Hue and blur, which policies hardly ask for, are done by groups.
"""

from collections.abc import Sequence

import numpy as np
import torch
import triton
import triton.language as tl
from torch import Tensor

from patchwords.data.augment import rounds as plain
from patchwords.data.augment.colour import LUMA
from patchwords.data.augment.rounds import OPERATIONS, WIDTH, Round, onto
from patchwords.ops.draws import Numbers

BLOCK = 1024  # pixels that are made together
LOOKED = 4096  # pixels that are looked at together
LEVELS = tl.constexpr(256)
NAMES = (  # by their numbers in the kernel
    "identity", "mirror", "bilinear", "nearest", "cover", "invert", "posterise", "solarise", "solarise-add",
    "brightness", "contrast-of-area", "colour", "grey", "sharpness", "autocontrast", "equalise", "contrast",
)  # fmt: skip
LOOKING = ("autocontrast", "equalise", "contrast")  # must know the whole picture
NUMBERS = {name: number for number, name in enumerate(NAMES)}


def run(images: Tensor, rounds: Sequence[Round]) -> Tensor:
    """The pictures after all rounds, in a new tensor; whole numbers are levels of 255."""
    if not rounds or images.shape[1] != 3:
        return plain.run(images, rounds)
    table = onto(np.stack([_table(each) for each in rounds]), images)  # (rounds, batch, 1 + WIDTH)
    for each, numbers in zip(rounds, table, strict=True):
        images = _done(images.contiguous(), each, numbers)
    return images


def _table(drawn: Round) -> Numbers:
    """For every picture the number of its operation, and those that the operation takes."""
    names, where = np.unique(drawn.names, return_inverse=True)
    which = np.array([NUMBERS.get(name, 0) for name in names.tolist()], dtype=np.float32)[where]
    return np.concatenate([which[:, None], drawn.numbers], 1, dtype=np.float32)


def _done(images: Tensor, drawn: Round, numbers: Tensor) -> Tensor:
    batch, _, height, width = images.shape
    out = torch.empty(images.shape, dtype=torch.float32, device=images.device)
    grey_level = min(height * width // 256, 255) / 255
    levels = not images.is_floating_point()
    told = torch.empty(batch, 3, LEVELS.value, dtype=torch.float32, device=images.device)
    if len(chosen := np.flatnonzero(np.isin(drawn.names, LOOKING))):
        place = onto(chosen.astype(np.int32), images)
        _look[(len(chosen), 3)](images, numbers, place, told, height * width, *LUMA, WIDTH, levels, LOOKED)
    grid = (triton.cdiv(height * width, BLOCK), batch)
    _round[grid](images, numbers, told, out, height, width, grey_level, *LUMA, WIDTH, levels, BLOCK)
    for name, chosen, columns in drawn.groups():
        if name not in NUMBERS:
            place, column = onto(chosen, images), onto(columns.astype(np.float32), images)
            given = images.index_select(0, place)
            given = given if given.is_floating_point() else given / 255
            out.index_copy_(0, place, OPERATIONS[name](given, column.unbind(1)))
    return out


@triton.jit
def _value(place, here, WHOLE: tl.constexpr):  # type: ignore[no-untyped-def]
    """In [0, 1]; zero where nothing is."""
    x = tl.load(place, here, 0).to(tl.float32)
    return x / 255.0 if WHOLE else x


@triton.jit
def _pixel(base, row, col, width, plane, here, WHOLE: tl.constexpr):  # type: ignore[no-untyped-def]
    """Red, green and blue."""
    place = base + row * width + col
    return _value(place, here, WHOLE), _value(place + plane, here, WHOLE), _value(place + 2 * plane, here, WHOLE)


@triton.jit
def _nearest(x):  # type: ignore[no-untyped-def]
    """The nearest whole number, of two the even one: there are no fractions so far from zero."""
    return (x + 12582912.0) - 12582912.0


@triton.jit
def _limited(x):  # type: ignore[no-untyped-def]
    return tl.minimum(tl.maximum(x, 0.0), 1.0)


@triton.jit
def _away(base, x, factor):  # type: ignore[no-untyped-def]
    """From `base` (factor 0) to the picture (1) and beyond."""
    return _limited((x - base) * factor + base)


@triton.jit
def _source(row, col, numbers, height, width):  # type: ignore[no-untyped-def]
    """Where the pixels of a warp come from, within the picture, and whether they come from there."""
    a, b, c = tl.load(numbers + 1), tl.load(numbers + 2), tl.load(numbers + 3)
    d, e, f = tl.load(numbers + 4), tl.load(numbers + 5), tl.load(numbers + 6)
    x, y = col + 0.5, row + 0.5
    across = (a * x + c) * (2.0 / width) - 1 + b * y * (2.0 / width)
    down = d * x * (2.0 / height) + ((e * y + f) * (2.0 / height) - 1)
    is_inside = (across >= -1) & (across < 1) & (down >= -1) & (down < 1)
    left = tl.minimum(tl.maximum(((across + 1) * width - 1) / 2, 0.0), width - 1.0)
    top = tl.minimum(tl.maximum(((down + 1) * height - 1) / 2, 0.0), height - 1.0)
    return top, left, is_inside


@triton.jit
def _look(  # type: ignore[no-untyped-def]
    images, table, chosen, told, plane, luma_red, luma_green, luma_blue,
    WIDTH: tl.constexpr, WHOLE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Of a channel of a picture: its darkest value and its width, or what becomes of its levels; or the mean grey."""
    picture, channel = tl.load(chosen + tl.program_id(0)).to(tl.int64), tl.program_id(1)
    base, there = images + picture * 3 * plane, told + (picture * 3 + channel) * LEVELS
    which = tl.load(table + picture * (1 + WIDTH)).to(tl.int32)
    if which == 14:  # autocontrast
        low, high = tl.full((BLOCK,), 1.0, tl.float32), tl.zeros((BLOCK,), tl.float32)
        for first in range(0, plane, BLOCK):
            pixel = first + tl.arange(0, BLOCK)
            x = _value(base + channel * plane + pixel, pixel < plane, WHOLE)
            low, high = tl.minimum(low, tl.where(pixel < plane, x, 1.0)), tl.maximum(high, x)
        darkest, brightest = tl.min(low, 0), tl.max(high, 0)
        tl.store(there, tl.where(brightest > darkest, darkest, 0.0))
        tl.store(there + 1, tl.where(brightest > darkest, brightest - darkest, 1.0))
    elif which == 15:  # equalise
        level = tl.arange(0, LEVELS)
        counts = tl.zeros((LEVELS,), tl.int32)
        for first in range(0, plane, BLOCK):
            pixel = first + tl.arange(0, BLOCK)
            x = _value(base + channel * plane + pixel, pixel < plane, WHOLE)
            counts += tl.histogram(_nearest(x * 255).to(tl.int32), LEVELS)
        counts -= tl.where(level == 0, tl.cdiv(plane, BLOCK) * BLOCK - plane, 0)  # those beyond the last pixel
        brightest = tl.max(tl.where(counts > 0, level, 0), 0)
        step = (plane - tl.sum(tl.where(level == brightest, counts, 0), 0)) // 255
        below = tl.cumsum(counts, 0) - counts
        spread = tl.minimum((below + step // 2) // tl.maximum(step, 1), 255)
        tl.store(there + level, tl.where(step > 0, spread, level).to(tl.float32) / 255.0)
    elif channel == 0:  # contrast
        total = tl.zeros((BLOCK,), tl.int64)
        for first in range(0, plane, BLOCK):
            pixel = first + tl.arange(0, BLOCK)
            red = _value(base + pixel, pixel < plane, WHOLE)
            green = _value(base + plane + pixel, pixel < plane, WHOLE)
            blue = _value(base + 2 * plane + pixel, pixel < plane, WHOLE)
            grey = _limited(red * luma_red + green * luma_green + blue * luma_blue)
            total += _nearest(grey * 255).to(tl.int64)
        mean = (2 * tl.sum(total, 0) + plane) // (2 * plane)  # rounded to the nearest
        tl.store(there, mean.to(tl.float32) / 255.0)


@triton.jit
def _round(  # type: ignore[no-untyped-def]
    images, table, told, out, height, width, grey_level, luma_red, luma_green, luma_blue,
    WIDTH: tl.constexpr, WHOLE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    pixel, picture = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.program_id(1).to(tl.int64)
    plane = height * width
    here = pixel < plane
    row, col = pixel // width, pixel % width
    base, numbers = images + picture * 3 * plane, table + picture * (1 + WIDTH)
    which, number = tl.load(numbers).to(tl.int32), tl.load(numbers + 1)
    if which == 1:  # mirror
        col = width - 1 - col
    red, green, blue = _pixel(base, row, col, width, plane, here, WHOLE)
    if which == 2:  # bilinear
        top, left, is_inside = _source(row, col, numbers, height, width)
        row0, col0 = tl.floor(top), tl.floor(left)
        down, across = top - row0, left - col0
        row0, col0 = row0.to(tl.int32), col0.to(tl.int32)
        row1, col1 = tl.minimum(row0 + 1, height - 1), tl.minimum(col0 + 1, width - 1)
        red0, green0, blue0 = _pixel(base, row0, col0, width, plane, here, WHOLE)
        red1, green1, blue1 = _pixel(base, row0, col1, width, plane, here, WHOLE)
        red2, green2, blue2 = _pixel(base, row1, col0, width, plane, here, WHOLE)
        red3, green3, blue3 = _pixel(base, row1, col1, width, plane, here, WHOLE)
        w0, w1, w2, w3 = (1 - down) * (1 - across), (1 - down) * across, down * (1 - across), down * across
        fill = tl.load(numbers + 7)
        red = tl.where(is_inside, _limited(red0 * w0 + red1 * w1 + red2 * w2 + red3 * w3), fill)
        green = tl.where(is_inside, _limited(green0 * w0 + green1 * w1 + green2 * w2 + green3 * w3), fill)
        blue = tl.where(is_inside, _limited(blue0 * w0 + blue1 * w1 + blue2 * w2 + blue3 * w3), fill)
    elif which == 3:  # nearest
        top, left, is_inside = _source(row, col, numbers, height, width)
        row0, col0 = _nearest(top).to(tl.int32), _nearest(left).to(tl.int32)
        red0, green0, blue0 = _pixel(base, row0, col0, width, plane, here, WHOLE)
        fill = tl.load(numbers + 7)
        red, green, blue = (
            tl.where(is_inside, red0, fill), tl.where(is_inside, green0, fill), tl.where(is_inside, blue0, fill),
        )  # fmt: skip
    elif which == 4:  # cover
        left, bottom, right = tl.load(numbers + 2), tl.load(numbers + 3), tl.load(numbers + 4)
        is_covered = (row >= number) & (row < bottom) & (col >= left) & (col < right)
        fill = tl.load(numbers + 5)
        red, green, blue = (
            tl.where(is_covered, fill, red), tl.where(is_covered, fill, green), tl.where(is_covered, fill, blue),
        )  # fmt: skip
    elif which == 5:  # invert
        red, green, blue = 1 - red, 1 - green, 1 - blue
    elif which == 6:  # posterise
        red = tl.floor(_nearest(red * 255) / number) * number / 255.0
        green = tl.floor(_nearest(green * 255) / number) * number / 255.0
        blue = tl.floor(_nearest(blue * 255) / number) * number / 255.0
    elif which == 7:  # solarise
        red = tl.where(_nearest(red * 255) < number, red, 1 - red)
        green = tl.where(_nearest(green * 255) < number, green, 1 - green)
        blue = tl.where(_nearest(blue * 255) < number, blue, 1 - blue)
    elif which == 8:  # solarise-add
        red = tl.where(_nearest(red * 255) < 128, tl.minimum(red + number / 255.0, 1.0), red)
        green = tl.where(_nearest(green * 255) < 128, tl.minimum(green + number / 255.0, 1.0), green)
        blue = tl.where(_nearest(blue * 255) < 128, tl.minimum(blue + number / 255.0, 1.0), blue)
    elif which == 9:  # brightness
        red, green, blue = _limited(red * number), _limited(green * number), _limited(blue * number)
    elif which == 10:  # contrast-of-area
        red, green, blue = (
            _away(grey_level, red, number), _away(grey_level, green, number), _away(grey_level, blue, number),
        )  # fmt: skip
    elif which == 11:  # colour
        grey = _limited(red * luma_red + green * luma_green + blue * luma_blue)
        red, green, blue = _away(grey, red, number), _away(grey, green, number), _away(grey, blue, number)
    elif which == 12:  # grey
        grey = _limited(red * luma_red + green * luma_green + blue * luma_blue)
        red, green, blue = grey, grey, grey
    elif which == 13:  # sharpness
        is_inner = here & (row > 0) & (row < height - 1) & (col > 0) & (col < width - 1)
        sum_red, sum_green, sum_blue = 4 * red, 4 * green, 4 * blue
        for place in range(9):
            red0, green0, blue0 = _pixel(base, row + place // 3 - 1, col + place % 3 - 1, width, plane, is_inner, WHOLE)
            sum_red += red0
            sum_green += green0
            sum_blue += blue0
        red = tl.where(is_inner, _away(sum_red / 13, red, number), red)
        green = tl.where(is_inner, _away(sum_green / 13, green, number), green)
        blue = tl.where(is_inner, _away(sum_blue / 13, blue, number), blue)
    elif which == 14:  # autocontrast
        look = told + picture * 3 * LEVELS
        red = (red - tl.load(look)) / tl.load(look + 1)
        green = (green - tl.load(look + LEVELS)) / tl.load(look + LEVELS + 1)
        blue = (blue - tl.load(look + 2 * LEVELS)) / tl.load(look + 2 * LEVELS + 1)
    elif which == 15:  # equalise
        look = told + picture * 3 * LEVELS
        red = tl.load(look + _nearest(red * 255).to(tl.int32))
        green = tl.load(look + LEVELS + _nearest(green * 255).to(tl.int32))
        blue = tl.load(look + 2 * LEVELS + _nearest(blue * 255).to(tl.int32))
    elif which == 16:  # contrast
        mean = tl.load(told + picture * 3 * LEVELS)
        red, green, blue = _away(mean, red, number), _away(mean, green, number), _away(mean, blue, number)
    there = out + picture * 3 * plane + pixel
    tl.store(there, red, here)
    tl.store(there + plane, green, here)
    tl.store(there + 2 * plane, blue, here)
