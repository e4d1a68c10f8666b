"""Geometric operations on whole batches; a warp is six numbers a picture, as in Pillow's Image.transform.

The numbers (a, b, c, d, e, f) tell where a pixel comes from: (x, y) shows what stood at (ax + by + c, dx + ey + f).
Both count from the top left corner, and the middle of a pixel lies at one half.
"""

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from patchwords.ops.draws import Numbers

AREA = (0.02, 1 / 3)  # random erasing (Zhong et al., 2017): share of the picture
ASPECT = (0.3, 1 / 0.3)  # height over width
TRIES = 10  # a rectangle that does not fit is drawn again
RECTANGLE_DRAWS = 2 * TRIES + 2

Size = tuple[int, int]  # height, width


def mirror(images: Tensor) -> Tensor:
    return images.flip(3)


def rotation(degrees: Numbers, size: Size) -> Numbers:
    """Counter-clockwise about the middle: (6, batch)."""
    cos, sin = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    y, x = size[0] / 2, size[1] / 2
    return np.stack([cos, -sin, x - cos * x + sin * y, sin, cos, y - sin * x - cos * y])


def shear_x(amount: Numbers, size: Size) -> Numbers:
    """Each row moves left by `amount` times its distance from the top."""
    return _moved(b=amount)


def shear_y(amount: Numbers, size: Size) -> Numbers:
    return _moved(d=amount)


def translation_x(pixels: Numbers, size: Size) -> Numbers:
    """To the left."""
    return _moved(c=pixels)


def translation_y(pixels: Numbers, size: Size) -> Numbers:
    """Upwards."""
    return _moved(f=pixels)


def square(half: Numbers, place: Numbers, size: Size) -> Numbers:
    """Top, left, bottom and right (4, batch) of squares of side 2 · `half`, around `place` (2, batch) in [0, 1)."""
    row, column = np.floor(place * np.array(size)[:, None])
    return np.stack([row - half, column - half, row + half, column + half])


def rectangles(uniform: Numbers, size: Size) -> tuple[Numbers, NDArray[np.bool_]]:
    """(batch, RECTANGLE_DRAWS) uniform numbers to top, left, bottom and right, and whether the picture is larger."""
    area = (AREA[0] + (AREA[1] - AREA[0]) * uniform[:, :TRIES]) * size[0] * size[1]
    low, high = map(math.log, ASPECT)
    aspect = np.exp(low + (high - low) * uniform[:, TRIES:-2])
    sides = np.round(np.sqrt(np.stack([area * aspect, area / aspect], axis=2)))  # (batch, tries, height and width)
    fits = np.logical_and(*(sides < size).transpose(2, 0, 1))
    sides = sides[np.arange(len(sides)), fits.argmax(1)]  # the first that fits: (batch, 2)
    start = np.floor(uniform[:, -2:] * (np.array(size) - sides + 1))
    return np.concatenate([start, start + sides], axis=1), fits.max(1)


def warp(images: Tensor, numbers: Sequence[Tensor], fill: Tensor, mode: Literal["bilinear", "nearest"]) -> Tensor:
    """Every picture by its own six numbers; what comes from outside of the picture is `fill`."""
    height, width = images.shape[2:]
    a, b, c, d, e, f = (number[:, None, None] for number in numbers)
    x = torch.arange(width, device=images.device) + 0.5
    y = torch.arange(height, device=images.device)[:, None] + 0.5
    across = (a * x + c) * (2 / width) - 1 + b * y * (2 / width)  # (batch, height, width), from -1 to 1
    down = d * x * (2 / height) + ((e * y + f) * (2 / height) - 1)
    grid = torch.stack([across, down], dim=-1)
    moved = F.grid_sample(images, grid, mode=mode, padding_mode="border", align_corners=False).clamp_(0, 1)
    is_inside = ((across >= -1) & (across < 1) & (down >= -1) & (down < 1))[:, None]
    return torch.where(is_inside, moved, fill[:, None, None, None])


def cover(images: Tensor, content: Tensor, top: Tensor, left: Tensor, bottom: Tensor, right: Tensor) -> Tensor:
    """A rectangle of every picture replaced by `content`, which broadcasts; the rectangle may reach over the edges."""
    rows = torch.arange(images.shape[2], device=images.device)
    columns = torch.arange(images.shape[3], device=images.device)
    is_row = (rows >= top[:, None]) & (rows < bottom[:, None])
    is_column = (columns >= left[:, None]) & (columns < right[:, None])
    return torch.where(is_row[:, None, :, None] & is_column[:, None, None, :], content, images)


def _moved(**changed: Numbers) -> Numbers:
    """The six numbers that leave everything in its place, but for the changed ones."""
    (batch,) = {len(column) for column in changed.values()}
    still = {"a": 1.0, "b": 0.0, "c": 0.0, "d": 0.0, "e": 1.0, "f": 0.0}
    return np.stack([changed.get(name, np.full(batch, number)) for name, number in still.items()])
