"""Which part of a picture the model sees, and that part at the model's size.

A box is (top, left, bottom, right) in pixels of the upright picture, not always whole ones; outside of it lies black.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor
from torch.nn import functional as F

from patchwords.data import kernels
from patchwords.data.picture import Orientation, Size, open_picture
from patchwords.data.preprocess import Interpolation, Preprocess
from patchwords.data.sources.source import Pixels
from patchwords.errors import UsageError
from patchwords.ops import draws
from patchwords.settings import at_least, check

TRIES = 10
GAP = 2  # a JPEG is decoded no smaller than this many times the size wanted, so that the reduction cannot be seen
FILTERS = {
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
}

Boxes = NDArray[np.float64]  # (n, 4)
Sizes = NDArray[np.int64]  # (n, 2): height, width
Numbers = NDArray[Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class RandomCrop:
    """A random part: `scale` is its share of the area, `ratio` its width to its height."""

    kind: ClassVar[str] = "random"
    scale: tuple[float, ...] = (0.08, 1.0)
    ratio: tuple[float, ...] = (3 / 4, 4 / 3)
    sampling: Literal["uniform", "inception"] = "uniform"

    def __post_init__(self) -> None:
        check(self)
        if len(self.scale) != 2 or not 0 < self.scale[0] <= self.scale[1] <= 1:
            raise UsageError(f"scale {list(self.scale)} is not a least and a most share of the area, in (0, 1]")
        if len(self.ratio) != 2 or not 0 < self.ratio[0] <= self.ratio[1]:
            raise UsageError(f"ratio {list(self.ratio)} is not a least and a most width/height, above 0")


@dataclass(frozen=True, kw_only=True, slots=True)
class PaddedCrop:
    """As in evaluation, shifted by up to so many pixels of the model's picture each way; customary for CIFAR."""

    kind: ClassVar[str] = "padded"
    pixels: int = 4

    def __post_init__(self) -> None:
        at_least(0, pixels=self.pixels)


@dataclass(frozen=True, kw_only=True, slots=True)
class WholeCrop:
    """As in evaluation."""

    kind: ClassVar[str] = "whole"


CropKind = RandomCrop | PaddedCrop | WholeCrop


def boxes(
    crop: CropKind, sizes: Sizes, preprocess: Preprocess, *, seed: int, views: Numbers | int, indices: Numbers | int
) -> Boxes:
    """The part of each picture that is shown this time: a pure function of its address and size."""
    match crop:
        case WholeCrop():
            return whole_box(preprocess, sizes)
        case PaddedCrop(pixels=pixels):
            numbers = draws.uniform("crop", seed, views, indices, count=2)
            return _shifted(
                whole_box(preprocess, sizes), preprocess.size, np.floor(numbers * (2 * pixels + 1)) - pixels
            )
        case RandomCrop(sampling=sampling):
            numbers = draws.uniform("crop", seed, views, indices, count=4 * TRIES).reshape(-1, TRIES, 4)
            law = _inception if sampling == "inception" else _uniform
            return law(crop, np.asarray(sizes, dtype=np.float64), numbers)


def whole_box(preprocess: Preprocess, sizes: Sizes) -> Boxes:
    """What evaluation sees: everything, or the centre as if the short side were resized and the rest cut off."""
    given = np.asarray(sizes, dtype=np.float64)  # (n, 2)
    if preprocess.fit == "squash":
        return np.concatenate([np.zeros_like(given), given], axis=1)
    wanted = np.array(preprocess.size, dtype=np.float64)
    cover = np.floor(wanted / preprocess.crop + 1e-9)  # the resized picture reaches so far; rounded as timm does
    if preprocess.fit == "centre":
        start = np.round((cover - wanted) / 2)
        return np.concatenate([start, start + wanted])[None] * np.tile(given / cover, 2)
    tight = (given[:, :1] * cover[1] > given[:, 1:] * cover[0]).astype(int)  # the side that just reaches: 0 the height
    scale = np.take(cover, tight) / np.take_along_axis(given, tight, axis=1)
    resized = np.maximum(np.floor(given * scale + 1e-9), cover)  # whole pixels, as torchvision's Resize
    start = np.round((resized - wanted) / 2)  # and its CenterCrop
    return np.concatenate([start, start + wanted], axis=1) * np.tile(given / resized, 2)


def _shifted(boxes: Boxes, size: Size, pixels: Numbers) -> Boxes:
    pixel = (boxes[:, 2:] - boxes[:, :2]) / np.array(size)
    return boxes + np.tile(pixels * pixel, 2)


def _uniform(crop: RandomCrop, sizes: Numbers, numbers: Numbers) -> Boxes:
    """Area uniform, aspect log-uniform; where no try fits, the centre with the nearest aspect: as torchvision."""
    height, width = sizes[:, :1], sizes[:, 1:]
    area = height * width * _between(numbers[:, :, 0], *crop.scale)
    aspect = np.exp(_between(numbers[:, :, 1], *np.log(crop.ratio)))
    rows, cols = np.rint(np.sqrt(area / aspect)), np.rint(np.sqrt(area * aspect))  # (n, tries)
    fits = (rows > 0) & (rows <= height) & (cols > 0) & (cols <= width)
    top = np.floor(numbers[:, :, 2] * (height - rows + 1))
    left = np.floor(numbers[:, :, 3] * (width - cols + 1))
    return _first(fits, top, left, rows, cols, _centre(crop, sizes))


def _inception(crop: RandomCrop, sizes: Numbers, numbers: Numbers) -> Boxes:
    """Aspect uniform, then the height, not the area, uniform from least to most: small areas come more often.

    The law of TensorFlow's sample_distorted_bounding_box, with its rounding to whole pixels, its last row and column
    that are never reached, and the whole picture where no try fits.
    """
    height, width = sizes[:, :1], sizes[:, 1:]
    least, most = crop.scale[0] * height * width, crop.scale[1] * height * width
    aspect = _between(numbers[:, :, 0], *crop.ratio)
    tallest = np.minimum(np.rint(np.sqrt(most / aspect)), np.minimum(height, _tallest(width, aspect)))
    lowest = np.minimum(np.rint(np.sqrt(least / aspect)), tallest)
    rows = lowest + np.floor(numbers[:, :, 1] * (tallest - lowest + 1))
    rows = rows + (rows * np.rint(rows * aspect) < least)  # rounding may have made it a row too low,
    rows = rows - (rows * np.rint(rows * aspect) > most)  # or too high
    cols = np.rint(rows * aspect)
    area = rows * cols
    fits = (least <= area) & (area <= most) & (rows > 0) & (rows <= height) & (cols > 0) & (cols <= width)
    top, left = np.floor(numbers[:, :, 2] * (height - rows)), np.floor(numbers[:, :, 3] * (width - cols))
    return _first(fits, top, left, rows, cols, np.concatenate([np.zeros_like(sizes), sizes], axis=1))


def _tallest(width: Numbers, aspect: Numbers) -> Numbers:
    """The most rows whose columns still fit the width once rounded."""
    rows = np.floor((width + 0.5) / aspect)
    return rows - (np.rint(rows * aspect) > width)


def _between(numbers: Numbers, least: float, most: float) -> Numbers:
    return least + numbers * (most - least)


def _first(fits: Numbers, top: Numbers, left: Numbers, rows: Numbers, cols: Numbers, otherwise: Boxes) -> Boxes:
    """For each picture the first try that fits."""
    tries = np.stack([top, left, top + rows, left + cols], axis=-1)  # (n, tries, 4)
    chosen = np.take_along_axis(tries, np.argmax(fits, axis=1)[:, None, None], axis=1)[:, 0]
    return np.where(np.any(fits, axis=1, keepdims=True), chosen, otherwise)


def _centre(crop: RandomCrop, sizes: Numbers) -> Boxes:
    height, width = sizes[:, 0], sizes[:, 1]
    aspect = np.clip(width / height, crop.ratio[0], crop.ratio[1])
    rows, cols = np.minimum(height, np.rint(width / aspect)), np.minimum(width, np.rint(height * aspect))
    top, left = (height - rows) // 2, (width - cols) // 2
    return np.stack([top, left, top + rows, left + cols], axis=1)


def cut(
    raw: bytes | Pixels,
    box: Numbers,
    size: Size,
    interpolation: Interpolation,
    channels: int,
    orientation: Orientation = "upright",
) -> Pixels:
    """A box of a picture at a size, for training: (channels, height, width)."""
    (found,) = cuts(raw, [(box, size)], interpolation, channels, orientation)
    return found


def cuts(
    raw: bytes | Pixels,
    places: Sequence[tuple[Numbers, Size]],
    interpolation: Interpolation,
    channels: int,
    orientation: Orientation = "upright",
) -> list[Pixels]:
    """Several boxes, each at its size, of a picture that is decoded once: as large as the finest of them wants it."""
    picture = open_picture(raw, orientation)
    rows = max(GAP * size[0] / (box[2] - box[0]) for box, size in places)
    cols = max(GAP * size[1] / (box[3] - box[1]) for box, size in places)
    decoded = picture.decode(channels, (ceil(picture.size[0] * rows), ceil(picture.size[1] * cols)))
    start, resample = np.tile(decoded.start, 2), FILTERS[interpolation]
    return [_resample(decoded.planes, box / decoded.reduction + start, size, resample) for box, size in places]


def prepare(raw: bytes | Pixels, preprocess: Preprocess, channels: int) -> Pixels:
    """A picture as evaluation sees it, decoded in full: (channels, height, width)."""
    picture = open_picture(raw, preprocess.orientation)
    (box,) = whole_box(preprocess, np.array([picture.size]))
    return _resample(picture.decode(channels).planes, box, preprocess.size, FILTERS[preprocess.interpolation])


def _resample(planes: Sequence[Image.Image], box: Numbers, size: Size, resample: Image.Resampling) -> Pixels:
    """Antialiased as Pillow does; outside of the picture it is black, to whole pixels of the result."""
    top, left, bottom, right = box.tolist()
    rows, cols = (bottom - top) / size[0], (right - left) / size[1]  # source pixels a pixel
    width, height = planes[0].size
    first_row, last_row = max(0, round(-top / rows)), min(size[0], round((height - top) / rows))
    first_col, last_col = max(0, round(-left / cols)), min(size[1], round((width - left) / cols))
    inside = (
        max(0.0, left + first_col * cols),
        max(0.0, top + first_row * rows),
        min(float(width), left + last_col * cols),
        min(float(height), top + last_row * rows),
    )
    target = last_col - first_col, last_row - first_row
    bands = [band for plane in planes for band in plane.resize(target, resample, box=inside).split()]
    found = np.stack([np.asarray(band) for band in bands])
    if target == (size[1], size[0]):
        return found
    whole = np.zeros((len(bands), *size), dtype=np.uint8)
    whole[:, first_row:last_row, first_col:last_col] = found
    return whole


def cut_stack(stack: Tensor, boxes: Numbers | Tensor, size: Size, interpolation: Interpolation = "bilinear") -> Tensor:
    """The same from decoded pictures on a device, uint8 (n, channels, height, width); boxes in shares of the sides."""
    places = torch.as_tensor(boxes).to(stack.device, torch.float32, non_blocking=True)
    top, left, bottom, right = places.unbind(dim=1)
    down = kernels.weights(top, bottom, stack.shape[2], size[0], interpolation)  # (n, rows, height)
    across = kernels.weights(left, right, stack.shape[3], size[1], interpolation)  # (n, cols, width)
    images = down[:, None] @ stack.float() @ across.mT[:, None]
    return images.round_().clamp_(0, 255).to(torch.uint8)


def shifted(stack: Tensor, starts: Numbers, most: int) -> Tensor:
    """Pictures (n, channels, height, width) seen from whole pixels `starts` (n, 2) on, up to `most` beyond their edges.

    What lies there is black.
    """
    padded = F.pad(stack, (most,) * 4)
    windows = padded.unfold(2, stack.shape[2], 1).unfold(3, stack.shape[3], 1)  # (n, channels, tops, lefts, …)
    places = np.concatenate([np.arange(len(stack))[None], np.rint(starts.T).astype(np.int64) + most])
    picture, top, left = torch.from_numpy(places).to(stack.device, non_blocking=True)
    return windows[picture, :, top, left]


def standardise(images: Tensor, preprocess: Preprocess) -> Tensor:
    """What the model takes, from values in [0, 1]: (batch, channels, height, width)."""
    if len(preprocess.mean) not in (1, images.shape[1]):
        raise UsageError(f"mean has {len(preprocess.mean)} numbers, and the pictures {images.shape[1]} channels")
    return (images - _each(preprocess.mean, images.device)) / _each(preprocess.deviation, images.device)


def _each(numbers: tuple[float, ...], device: torch.device) -> Tensor:
    """One number a channel, on the device: copied there once, but for a compiler, which keeps it in what it makes."""
    return _made(numbers, device) if torch.compiler.is_compiling() else _made_once(numbers, device)


def _made(numbers: tuple[float, ...], device: torch.device) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float32)[:, None, None].to(device, non_blocking=True)


@lru_cache(maxsize=16)
@torch.inference_mode(False)  # it will be needed by a backward pass, whoever asks first
def _made_once(numbers: tuple[float, ...], device: torch.device) -> Tensor:
    return _made(numbers, device)


def normalise(images: Tensor, preprocess: Preprocess) -> Tensor:
    """What the model takes, from pixels of 0 to 255."""
    return standardise(images.float() / 255, preprocess)
