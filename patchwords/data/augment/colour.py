"""Changes of colour for a whole batch of pictures in [0, 1], each with its own strength.

They follow Pillow's ImageOps and ImageEnhance, but keep the fractions between two levels of 255. A picture's result
never depends on its neighbours in the batch: sums are of whole numbers, where no order of adding rounds otherwise.
"""

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from patchwords.ops.draws import Numbers

LUMA = (0.299, 0.587, 0.114)  # how much red, green and blue weigh in grey (ITU-R 601-2), as Pillow's "L"
BLUR_TAPS = 7  # the middle one and one side: three deviations of the widest blur, 2 pixels


def levels(images: Tensor) -> Tensor:
    """The nearest of the 256 levels of an 8-bit picture, as whole numbers in a floating tensor."""
    return (images * 255).round_()


def invert(images: Tensor) -> Tensor:
    return 1 - images


def posterise(images: Tensor, step: Tensor) -> Tensor:
    """Down to a multiple of `step` levels; `step_of_bits` tells the step that keeps so many bits."""
    step = _each(step)
    return (levels(images) / step).floor_() * step / 255


def step_of_bits(bits: Numbers) -> Numbers:
    return np.ldexp(1.0, 8 - bits.astype(np.int64))


def solarise(images: Tensor, threshold: Tensor) -> Tensor:
    """Inverted from `threshold` on, a level up to 255."""
    return torch.where(levels(images) < _each(threshold), images, 1 - images)


def solarise_add(images: Tensor, amount: Tensor) -> Tensor:
    """The darker half is made brighter by so many levels."""
    return torch.where(levels(images) < 128, (images + _each(amount) / 255).clamp_(max=1), images)


def autocontrast(images: Tensor) -> Tensor:
    """Each channel stretched from its darkest to its brightest pixel; one of a single value is left alone."""
    low, high = torch.aminmax(images.flatten(2), dim=2, keepdim=True)
    low, high = low[..., None], high[..., None]  # (batch, channels, 1, 1)
    width = torch.where(high > low, high - low, 1)
    return torch.where(high > low, (images - low) / width, images)


def equalise(images: Tensor) -> Tensor:
    """Each channel's levels spread so that about equally many pixels fall on each, by Pillow's whole-number rule."""
    index = levels(images).flatten(2).long()  # (batch, channels, pixels)
    ones = torch.ones((), dtype=index.dtype, device=index.device).expand_as(index)
    counts = torch.zeros((*index.shape[:2], 256), dtype=index.dtype, device=index.device).scatter_add_(2, index, ones)
    brightest = counts.gather(2, index.amax(2, keepdim=True))
    step = (index.shape[2] - brightest) // 255
    below = counts.cumsum(2) - counts
    spread = ((below + step // 2) // step.clamp(min=1)).clamp_(max=255)
    table = torch.where(step > 0, spread, torch.arange(256, device=index.device)).to(images.dtype) / 255
    return table.gather(2, index).view_as(images)


def brightness(images: Tensor, factor: Tensor) -> Tensor:
    """Away from black, or towards it below 1."""
    return (images * _each(factor)).clamp_(0, 1)


def contrast(images: Tensor, factor: Tensor) -> Tensor:
    """Away from the picture's mean grey, a whole level as in Pillow; other than three channels are averaged alike."""
    total = levels(grey(images)[:, :1] if _is_rgb(images) else images).to(torch.int32).sum((1, 2, 3))
    count = images[0, 0].numel() * (1 if _is_rgb(images) else images.shape[1])
    mean = (2 * total + count) // (2 * count)  # rounded to the nearest
    return _away(_each(mean.to(images.dtype) / 255), images, factor)


def contrast_of_area(images: Tensor, factor: Tensor) -> Tensor:
    """big_vision's contrast: its "mean grey" is the number of pixels over 256, so 196 for every picture of 224x224."""
    grey_level = min(images.shape[2] * images.shape[3] // 256, 255)
    return _away(torch.full((), grey_level / 255, device=images.device), images, factor)


def colour(images: Tensor, factor: Tensor) -> Tensor:
    """Away from grey, or towards it below 1; pictures without three channels have no colour to change."""
    return _away(grey(images), images, factor) if _is_rgb(images) else images


def grey(images: Tensor) -> Tensor:
    """The same grey in all three channels; other numbers of channels are left alone."""
    if not _is_rgb(images):
        return images
    red, green, blue = (channel * weight for channel, weight in zip(images.unbind(1), LUMA, strict=True))
    return (red + green + blue).clamp_(0, 1)[:, None].expand_as(images)


def hue(images: Tensor, turns: Tensor) -> Tensor:
    """Every colour turned on the circle of hues, saturation and value kept: torchvision's adjust_hue."""
    if not _is_rgb(images):
        return images
    low, value = torch.aminmax(images, dim=1)  # (batch, height, width)
    width = value - low
    red, green, blue = ((value - channel) / torch.where(width > 0, width, 1) for channel in images.unbind(1))
    sixths = torch.where(images[:, 1] == value, 2 + red - blue, 4 + green - red)
    sixths = torch.where(images[:, 0] == value, blue - green, sixths) + 6 * turns[:, None, None]
    places = [(sixths + number) % 6 for number in (5, 3, 1)]  # red, green and blue on the circle
    return torch.stack([value - width * torch.minimum(k, 4 - k).clamp_(0, 1) for k in places], 1)


def sharpness(images: Tensor, factor: Tensor) -> Tensor:
    """Away from a smoothed picture, or towards it below 1; the outermost pixels stay."""
    rows = images[:, :, :-2] + images[:, :, 1:-1] + images[:, :, 2:]
    nine = rows[..., :-2] + rows[..., 1:-1] + rows[..., 2:]
    inner = images[:, :, 1:-1, 1:-1]
    changed = images.clone()
    changed[:, :, 1:-1, 1:-1] = _away((nine + 4 * inner) / 13, inner, factor)  # Pillow's SMOOTH: 1s around a 5
    return changed


def blur(images: Tensor, *taps: Tensor) -> Tensor:
    """Gaussian, by the weights of the middle pixel and of one side; pictures go on beyond their edges as they end."""
    reach = len(taps) - 1
    for axis in (2, 3):
        x = F.pad(images, (0, 0, reach, reach) if axis == 2 else (reach, reach, 0, 0), mode="replicate")
        side = images.shape[axis]
        images = images * _each(taps[0])
        for distance in range(1, reach + 1):
            pair = x.narrow(axis, reach - distance, side) + x.narrow(axis, reach + distance, side)
            images += pair.mul_(_each(taps[distance]))
    return images.clamp_(0, 1)


def gaussian_taps(deviation: Numbers) -> Numbers:
    """(batch,) widths in pixels to (BLUR_TAPS, batch) weights for `blur`, which sum to 1 over both sides."""
    half = np.exp(-0.5 * (np.arange(BLUR_TAPS)[:, None] / deviation) ** 2)
    return half / (2 * half.sum(0) - half[0])


def _each(number: Tensor) -> Tensor:
    """One number a picture, ready to meet (batch, channels, height, width)."""
    return number[:, None, None, None]


def _away(base: Tensor, images: Tensor, factor: Tensor) -> Tensor:
    """From `base` (factor 0) to the picture (1) and beyond."""
    return ((images - base) * _each(factor)).add_(base).clamp_(0, 1)


def _is_rgb(images: Tensor) -> bool:
    return images.shape[1] == 3
