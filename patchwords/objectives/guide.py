"""Pictures that were prepared for one model, as another one wants them: its size, its channels, its statistics."""

import torch
from torch import Tensor

from patchwords.data import kernels
from patchwords.data.preprocess import Preprocess
from patchwords.data.transforms import standardise
from patchwords.errors import UsageError

LUMA = (0.299, 0.587, 0.114)  # ITU-R 601, as pictures are made grey when they are read


def shown(images: Tensor, given: Preprocess, wanted: Preprocess) -> Tensor:
    """Normalised pictures (batch, channels, height, width) in another model's preparation, a mean each channel of it.

    The part of the picture stays: what differs in size is resized whole, antialiased. Nothing is clamped, since erased
    places hold noise beyond black and white.
    """
    channels, size = len(wanted.mean), (images.shape[2], images.shape[3])
    if _is_same(given, wanted) and (images.shape[1], size) == (channels, wanted.size):
        return images
    x = in_channels(restored(images.float(), given), channels)
    return standardise(resized(x, wanted), wanted)


def restored(images: Tensor, preprocess: Preprocess) -> Tensor:
    """The values in [0, 1] that were normalised; the inverse of `standardise`."""
    mean, deviation = (_each(numbers, images.device) for numbers in (preprocess.mean, preprocess.deviation))
    return images * deviation + mean


def _each(numbers: tuple[float, ...], device: torch.device) -> Tensor:
    """One number for each channel, written by the device itself: a recorded step can copy nothing from the host."""
    return torch.stack([torch.full((1, 1), number, device=device) for number in numbers])


def in_channels(images: Tensor, channels: int) -> Tensor:
    """Grey as colour, or colour as grey; other channels have no such meaning."""
    given = images.shape[1]
    if given == channels:
        return images
    if (given, channels) == (1, 3):
        return images.expand(-1, 3, -1, -1)
    if (given, channels) == (3, 1):
        red, green, blue = images.unbind(1)
        return (LUMA[0] * red + LUMA[1] * green + LUMA[2] * blue)[:, None]
    raise UsageError(
        f"pictures of {given} channels cannot be shown to a model that takes {channels}: only 1 and 3 convert"
    )


def resized(images: Tensor, preprocess: Preprocess) -> Tensor:
    """Pictures at another size, by the same antialiased kernels as when they are read."""
    given, wanted = (images.shape[2], images.shape[3]), preprocess.size
    if given == wanted:
        return images
    start, stop = images.new_zeros(1), images.new_ones(1)
    down, across = (
        kernels.weights(start, stop, *sides, preprocess.interpolation) for sides in zip(given, wanted, strict=True)
    )  # (1, wanted, given)
    with torch.autocast(images.device.type, enabled=False):  # 8 bits of a pixel need more than bfloat16 has
        return down @ images @ across.mT


def _is_same(given: Preprocess, wanted: Preprocess) -> bool:
    return (given.mean, given.deviation) == (wanted.mean, wanted.deviation)
