"""Section 4.5, Figure 7 (left): the principal components of the filters that see the pixels."""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from patchwords.errors import ModelError, UsageError

SHOWN = 28  # as many as the figure has
GREY = 128  # of a component that is the same everywhere


class Components(NamedTuple):
    """The first principal components as tiles, each with its share of the variance between the filters."""

    tiles: Tensor  # (components, channels, height, width), float64, each of length one
    shares: Tensor  # (components)


def principal(filters: Tensor, count: int = SHOWN) -> Components:
    """The first `count` components of filters (filters, channels, height, width), or all where there are fewer.

    The largest value of each is positive, since a component and its negative are the same.
    """
    rows = filters.detach().cpu().double().flatten(1)
    if not rows.isfinite().all():
        raise ModelError("the filters hold values that are not finite: the weights are damaged")
    rows = rows - rows.mean(0)
    _, lengths, tiles = torch.linalg.svd(rows, full_matrices=False)
    exist = int((lengths > lengths[0] * max(rows.shape) * torch.finfo(torch.float64).eps).sum())
    if not exist:
        raise UsageError(f"filters that are all the same have no principal components ({len(rows)} came)")
    first = tiles[: min(count, exist)]
    largest = first.gather(1, first.abs().argmax(1, keepdim=True))
    shares = lengths.square() / lengths.square().sum()
    return Components((first * largest.sign()).unflatten(1, filters.shape[1:]), shares[: len(first)])


def visible(tiles: Tensor) -> NDArray[np.uint8]:
    """Tiles (tiles, channels, height, width) as pixels (tiles, height, width, 3), each scaled to its own range.

    Of more than three channels the first three are shown as red, green and blue; of fewer, the first one as grey.
    """
    channels = tiles.shape[1]
    colours = tiles[:, :3] if channels >= 3 else tiles[:, :1].expand(-1, 3, -1, -1)
    flat = colours.double().flatten(1)
    low, high = flat.amin(1, keepdim=True), flat.amax(1, keepdim=True)
    span = high - low
    scaled = torch.where(span > 1e-9 * flat.abs().amax(1, keepdim=True), 255 * (flat - low) / span, GREY)
    pixels: NDArray[np.uint8] = scaled.round().byte().unflatten(1, colours.shape[1:]).movedim(1, 3).cpu().numpy()
    return np.ascontiguousarray(pixels)
