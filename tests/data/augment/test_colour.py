"""Colour operations do what Pillow does, to within a level of 255, and pictures do not mind each other."""

import colorsys
from collections.abc import Callable

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image, ImageEnhance, ImageFilter, ImageOps
from scipy import ndimage
from torch import Tensor
from torch.nn import functional as F

from patchwords.data.augment import colour

FACTORS = [0.0, 0.1, 0.73, 1.0, 1.27, 1.9, 3.7]
Pixels = NDArray[np.uint8]


@pytest.fixture(scope="module")
def pixels() -> Pixels:
    """(pictures, height, width, 3): noise, a smooth one, a dull one, a single colour, black and white."""
    generator = torch.Generator().manual_seed(1)
    noise = torch.randint(0, 256, (3, 41, 53), generator=generator).float()
    smooth = F.interpolate(torch.rand(1, 3, 5, 6, generator=generator) * 255, (41, 53), mode="bilinear")[0]
    flat = torch.tensor([17.0, 130.0, 201.0])[:, None, None].expand(3, 41, 53)
    checks = 255.0 * ((torch.arange(41)[:, None] // 7 + torch.arange(53) // 7) % 2).expand(3, 41, 53)
    stacked = torch.stack([noise, smooth, 90 + smooth / 8, flat, checks])
    return stacked.round().to(torch.uint8).permute(0, 2, 3, 1).numpy()


def tensor(pixels: Pixels) -> Tensor:
    return torch.from_numpy(pixels).permute(0, 3, 1, 2).float() / 255


def difference(ours: Tensor, pixels: Pixels, theirs: Callable[[Image.Image], Image.Image]) -> float:
    """The largest distance to Pillow's pictures, in levels."""
    pillow = tensor(np.stack([np.asarray(theirs(Image.fromarray(picture))) for picture in pixels]))
    assert 0 <= ours.min() <= ours.max() <= 1
    return float(((ours - pillow) * 255).abs().max())


def each(number: float, pixels: Pixels) -> Tensor:
    return torch.full((len(pixels),), number)


@pytest.mark.parametrize("turns", [-0.5, -0.1, 0.0, 0.07, 1 / 3, 0.5])
def test_a_turn_of_the_hue_is_that_of_hsv(pixels: Pixels, turns: float) -> None:
    images = tensor(pixels)[:, :, ::4, ::4]
    found = colour.hue(images, each(turns, pixels)).permute(0, 2, 3, 1).reshape(-1, 3)
    by_hand = []
    for red, green, blue in images.permute(0, 2, 3, 1).reshape(-1, 3).tolist():
        h, s, v = colorsys.rgb_to_hsv(red, green, blue)
        by_hand.append(colorsys.hsv_to_rgb((h + turns) % 1.0, s, v))
    torch.testing.assert_close(found, torch.tensor(by_hand), rtol=0, atol=2e-5)


def test_no_turn_of_the_hue_is_the_picture_and_a_third_exchanges_the_channels(pixels: Pixels) -> None:
    images = tensor(pixels)
    torch.testing.assert_close(colour.hue(images, each(0.0, pixels)), images)
    torch.testing.assert_close(colour.hue(images, each(1 / 3, pixels)), images.roll(1, 1))


def test_inverting_is_pillows(pixels: Pixels) -> None:
    assert difference(colour.invert(tensor(pixels)), pixels, ImageOps.invert) < 1e-3


@pytest.mark.parametrize("bits", [1, 2, 3, 4, 5, 6, 7, 8])
def test_posterising_is_pillows(pixels: Pixels, bits: int) -> None:
    step = torch.from_numpy(colour.step_of_bits(np.full(len(pixels), float(bits)))).float()
    assert difference(colour.posterise(tensor(pixels), step), pixels, lambda x: ImageOps.posterize(x, bits)) < 1e-3


def test_no_bits_are_black(pixels: Pixels) -> None:
    step = torch.from_numpy(colour.step_of_bits(np.zeros(len(pixels)))).float()
    assert not colour.posterise(tensor(pixels), step).any()


@pytest.mark.parametrize("threshold", [0, 1, 26, 128, 255, 256])
def test_solarising_is_pillows(pixels: Pixels, threshold: int) -> None:
    ours = colour.solarise(tensor(pixels), each(threshold, pixels))
    assert difference(ours, pixels, lambda x: ImageOps.solarize(x, threshold)) < 1e-3


@pytest.mark.parametrize("amount", [0, 5, 99, 110, 220])
def test_solarise_add_brightens_the_darker_half(pixels: Pixels, amount: int) -> None:
    table = [min(level + amount, 255) if level < 128 else level for level in range(256)]
    ours = colour.solarise_add(tensor(pixels), each(amount, pixels))
    assert difference(ours, pixels, lambda x: x.point(table * 3)) < 1e-3


def test_equalising_is_pillows(pixels: Pixels) -> None:
    assert difference(colour.equalise(tensor(pixels)), pixels, ImageOps.equalize) < 1e-3


def test_equalising_a_large_picture_is_pillows() -> None:
    pixels = np.random.default_rng(0).normal(90, 30, (1, 300, 400, 3)).clip(0, 255).astype(np.uint8)
    assert difference(colour.equalise(tensor(pixels)), pixels, ImageOps.equalize) < 1e-3


def test_autocontrast_is_pillows(pixels: Pixels) -> None:
    ours = colour.autocontrast(tensor(pixels))
    assert difference(ours, pixels, ImageOps.autocontrast) < 1  # Pillow cuts fractions of a level off


@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (colour.brightness, ImageEnhance.Brightness),
        (colour.contrast, ImageEnhance.Contrast),
        (colour.colour, ImageEnhance.Color),
        (colour.sharpness, ImageEnhance.Sharpness),
    ],
)
def test_enhancing_is_pillows(
    pixels: Pixels, ours: Callable[[Tensor, Tensor], Tensor], theirs: Callable[[Image.Image], object], factor: float
) -> None:
    changed = colour.levels(ours(tensor(pixels), each(factor, pixels))) / 255
    # Pillow rounds what a picture is moved away from to a whole level; far away this counts more than once.
    allowed = 1 if factor < 2 else 2
    assert difference(changed, pixels, lambda x: theirs(x).enhance(factor)) < allowed + 1e-3


def test_grey_is_pillows(pixels: Pixels) -> None:
    assert difference(colour.grey(tensor(pixels)), pixels, lambda x: x.convert("L").convert("RGB")) <= 0.5 + 1e-3


def test_contrast_of_a_grey_picture_is_pillows(pixels: Pixels) -> None:
    grey = pixels[..., :1]
    ours = colour.contrast(tensor(grey), each(1.6, pixels))
    theirs = [np.asarray(ImageEnhance.Contrast(Image.fromarray(x[..., 0])).enhance(1.6))[..., None] for x in grey]
    assert ((ours - tensor(np.stack(theirs))) * 255).abs().max() <= 1


def test_big_visions_contrast_moves_away_from_the_area_over_256() -> None:
    images = torch.rand(2, 3, 224, 224)
    assert torch.allclose(colour.contrast_of_area(images, torch.zeros(2)), torch.tensor(196 / 255))
    assert torch.allclose(colour.contrast_of_area(images, torch.ones(2)), images)
    assert (colour.contrast_of_area(torch.rand(1, 3, 300, 300), torch.zeros(1)) == 1).all()  # no more than white


@pytest.mark.parametrize("deviation", [0.1, 0.5, 1.3, 2.0])
def test_blurring_is_a_gaussian(pixels: Pixels, deviation: float) -> None:
    taps = torch.from_numpy(colour.gaussian_taps(np.full(len(pixels), deviation))).float()
    ours = colour.blur(tensor(pixels), *taps)
    images = tensor(pixels).double().numpy()
    theirs = ndimage.gaussian_filter(images, (0, 0, deviation, deviation), mode="nearest", radius=(0, 0, 6, 6))
    torch.testing.assert_close(ours, torch.from_numpy(theirs).float(), atol=1e-5, rtol=0)


def test_blurring_is_about_pillows(pixels: Pixels) -> None:
    taps = torch.from_numpy(colour.gaussian_taps(np.full(len(pixels), 2.0))).float()
    ours = colour.blur(tensor(pixels), *taps)
    assert difference(ours[1:2], pixels[1:2], lambda x: x.filter(ImageFilter.GaussianBlur(2.0))) < 3


OPERATIONS: list[Callable[[Tensor, Tensor], Tensor]] = [
    lambda x, n: colour.invert(x),
    lambda x, n: colour.posterise(x, n * 16),
    lambda x, n: colour.solarise(x, n * 100),
    lambda x, n: colour.solarise_add(x, n * 50),
    lambda x, n: colour.autocontrast(x),
    lambda x, n: colour.equalise(x),
    colour.brightness,
    colour.contrast,
    colour.contrast_of_area,
    colour.colour,
    colour.hue,
    lambda x, n: colour.grey(x),
    colour.sharpness,
    lambda x, n: colour.blur(x, *torch.from_numpy(colour.gaussian_taps(n.double().numpy())).float()),
]


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("shape", [(1, 9, 7), (2, 8, 8), (3, 1, 1), (3, 2, 5), (3, 33, 31), (5, 6, 4)])
def test_any_number_of_channels_and_any_size(
    operation: Callable[[Tensor, Tensor], Tensor], shape: tuple[int, int, int]
) -> None:
    images = torch.rand(4, *shape)
    kept = images.clone()
    changed = operation(images, torch.tensor([0.4, 0.9, 1.4, 1.9]))
    assert changed.shape == images.shape
    assert 0 <= changed.min() <= changed.max() <= 1
    assert torch.equal(images, kept)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_picture_does_not_mind_its_neighbours(operation: Callable[[Tensor, Tensor], Tensor]) -> None:
    images, numbers = torch.rand(7, 3, 45, 51), torch.linspace(0.4, 1.9, 7)
    together = operation(images, numbers)
    alone = torch.cat([operation(images[i : i + 1], numbers[i : i + 1]) for i in range(7)])
    assert torch.equal(together, alone)


@pytest.mark.parametrize("channels", [1, 2, 4])
def test_pictures_without_three_channels_have_no_colour(channels: int) -> None:
    images = torch.rand(3, channels, 8, 8)
    assert torch.equal(colour.colour(images, torch.full((3,), 1.8)), images)
    assert torch.equal(colour.grey(images), images)
    assert torch.equal(colour.hue(images, torch.full((3,), 0.3)), images)
