"""Boxes of pictures of different sizes, cut and resized on a device: as Pillow does it, within a grey level or two."""

from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from patchwords.data import kernels
from patchwords.data.picture import Size
from patchwords.data.preprocess import Interpolation

MOST = 256 << 20  # numbers in a stack: pictures are padded to the largest among them

Boxes = NDArray[np.float64]  # (n, 4)
Sides = NDArray[np.int64]  # (n, 2): height, width


class Region(NamedTuple):
    """Where begins and ends what boxes take of their pictures, with what the pixels around lend to their edges."""

    start: Sides
    stop: Sides


CutPictures = Callable[[Sequence[Tensor], Boxes, Size, Interpolation], Tensor]


def fastest(device: torch.device, note: Callable[[str], None]) -> CutPictures:
    """The kernel where there is one for the device; its plain twin else."""
    if device.type != "cuda":
        return cut_pictures
    if find_spec("triton") is None:
        note("Triton is not installed: pictures are cut by matrix products, which is slower")
        return cut_pictures
    from patchwords.data import stack_triton  # which needs Triton

    return stack_triton.cut_pictures


def regions(boxes: Boxes, sides: Sides, size: Size, interpolation: Interpolation) -> Region:
    """For each picture, at the `size` that its box will have."""
    _, reach = kernels.KERNELS[interpolation]
    margin = reach * np.maximum((boxes[:, 2:] - boxes[:, :2]) / np.array(size), 1) + 1
    start = np.floor(boxes[:, :2] - margin).clip(0, sides - 1).astype(np.int64)
    stop = np.ceil(boxes[:, 2:] + margin).clip(start + 1, sides).astype(np.int64)
    return Region(start, stop)


def cut_pictures(pictures: Sequence[Tensor], boxes: Boxes, size: Size, interpolation: Interpolation) -> Tensor:
    """uint8 (3, height, width) each, and a box of each in its pixels, to (n, 3, *size)."""
    sides = np.array([picture.shape[1:] for picture in pictures], dtype=np.int64)
    region = regions(boxes, sides, size, interpolation)
    found = []
    for piece in _pieces(region.stop - region.start):
        start, stop = region.start[piece], region.stop[piece]
        stack = _stacked(pictures[piece], start, stop)
        found.append(_cut(stack, boxes[piece] - np.tile(start, 2), stop - start, size, interpolation))
    return torch.cat(found)


def _pieces(sides: Sides) -> Iterator[slice]:
    """So many at a time that their stack does not fill the memory."""
    first = 0
    for last in range(1, len(sides) + 1):
        most = sides[first : last + 1].max(0)
        if last == len(sides) or 3 * (last + 1 - first) * most.prod() > MOST:
            yield slice(first, last)
            first = last


def _stacked(pictures: Sequence[Tensor], start: Sides, stop: Sides) -> Tensor:
    """The regions (n, rows, 3, cols), black where one is smaller than the largest; half precision holds every level."""
    device = pictures[0].device
    rows, cols = (stop - start).max(0).tolist()
    number = torch.float16 if device.type == "cuda" else torch.float32
    stack = torch.zeros(len(pictures), rows, 3, cols, dtype=number, device=device)
    for place, picture, (top, left), (bottom, right) in zip(
        stack, pictures, start.tolist(), stop.tolist(), strict=True
    ):
        place[: bottom - top, :, : right - left].copy_(picture[:, top:bottom, left:right].transpose(0, 1))
    return stack


def _cut(stack: Tensor, boxes: Boxes, sides: Sides, size: Size, interpolation: Interpolation) -> Tensor:
    """First along the rows, then along the columns, to whole levels each time, as Pillow does."""
    n, rows, channels, cols = stack.shape
    places = torch.from_numpy(np.concatenate([boxes, sides], 1).astype(np.float32)).to(stack.device, non_blocking=True)
    top, left, bottom, right, height, width = places.unbind(1)
    across = kernels.spread(left, right, width, cols, size[1], interpolation).to(stack.dtype)  # (n, new cols, cols)
    down = kernels.spread(top, bottom, height, rows, size[0], interpolation).to(stack.dtype)  # (n, new rows, rows)
    x = _levels(stack.view(n, rows * channels, cols) @ across.mT).view(n, rows, channels * size[1])
    x = _levels(down @ x).view(n, size[0], channels, size[1])
    return x.to(torch.uint8).transpose(1, 2).contiguous()


def _levels(x: Tensor) -> Tensor:
    """The nearest of the 256, and of two that are equally near the upper one."""
    return x.add_(0.5).floor_().clamp_(0, 255)
