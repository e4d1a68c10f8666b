"""Pictures prepared for one model, shown to another: exactly what that one would have been given."""

import numpy as np
import pytest
import torch
from PIL import Image

from patchwords.data.preprocess import IMAGENET, Interpolation, Preprocess
from patchwords.data.transforms import normalise, prepare
from patchwords.errors import UsageError
from patchwords.objectives.guide import in_channels, resized, restored, shown

HALF = Preprocess(size=(12, 10))
THEIRS = Preprocess(size=(12, 10), mean=IMAGENET.mean, deviation=IMAGENET.deviation)
GREY = Preprocess(size=(12, 10), mean=(0.3,), deviation=(0.2,))


def pixels(channels: int = 3, size: tuple[int, int] = (12, 10)) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randint(256, (2, channels, *size), dtype=torch.uint8, generator=generator)


def test_the_same_preparation_changes_nothing_at_all() -> None:
    images = normalise(pixels(), HALF)
    assert shown(images, HALF, HALF) is images


def test_other_statistics_give_what_those_would_have_given() -> None:
    found = shown(normalise(pixels(), HALF), HALF, THEIRS)
    torch.testing.assert_close(found, normalise(pixels(), THEIRS), rtol=0, atol=2e-6)


def test_what_was_normalised_is_restored() -> None:
    torch.testing.assert_close(restored(normalise(pixels(), THEIRS), THEIRS), pixels() / 255, rtol=0, atol=1e-6)


def test_one_mean_for_all_channels_is_understood() -> None:
    one = Preprocess(size=(12, 10), mean=(0.4,), deviation=(0.3,))
    found = shown(normalise(pixels(), one), one, THEIRS)
    torch.testing.assert_close(found, normalise(pixels(), THEIRS), rtol=0, atol=2e-6)


def test_grey_is_shown_as_colour() -> None:
    found = shown(normalise(pixels(1), GREY), GREY, THEIRS)
    torch.testing.assert_close(found, normalise(pixels(1).expand(-1, 3, -1, -1), THEIRS), rtol=0, atol=2e-6)


def test_colour_is_shown_as_the_grey_that_a_picture_file_would_give() -> None:
    found = restored(shown(normalise(pixels(), HALF), HALF, GREY), GREY)
    files = [Image.fromarray(picture.permute(1, 2, 0).numpy()).convert("L") for picture in pixels()]
    expected = torch.from_numpy(np.stack([np.asarray(file) for file in files]))[:, None]
    assert (found * 255 - expected).abs().max() < 0.51  # which are whole numbers


@pytest.mark.parametrize(("given", "wanted"), [(2, 3), (3, 4), (1, 2)])
def test_other_channels_are_refused(given: int, wanted: int) -> None:
    with pytest.raises(UsageError, match=f"of {given} channels cannot be shown to a model that takes {wanted}"):
        in_channels(torch.zeros(1, given, 4, 4), wanted)


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic", "lanczos"])
@pytest.mark.parametrize("size", [(6, 7), (24, 30)], ids=["smaller", "larger"])
def test_another_size_is_resampled_as_files_are(interpolation: Interpolation, size: tuple[int, int]) -> None:
    wanted = Preprocess(size=size, interpolation=interpolation)
    smooth = Image.fromarray(pixels()[0].permute(1, 2, 0).numpy()).resize((20, 24)).resize((40, 48))
    raw = np.asarray(smooth) // 2 + 64  # so that no overshoot is cut off, as in files
    images = normalise(torch.from_numpy(raw).permute(2, 0, 1)[None], HALF)
    found = restored(shown(images, HALF, wanted), wanted) * 255
    assert (found[0] - torch.from_numpy(prepare(raw, wanted, 3))).abs().max() < 1.1  # Pillow rounds after each axis


def test_values_beyond_black_and_white_are_kept() -> None:
    images = torch.full((1, 3, 12, 10), 5.0)  # noise in an erased place
    torch.testing.assert_close(shown(images, HALF, Preprocess(size=(6, 6))), torch.full((1, 3, 6, 6), 5.0))


def test_pixels_keep_their_bits_under_autocast() -> None:
    images = torch.rand(1, 3, 12, 10)
    with torch.autocast("cpu", torch.bfloat16):
        found = resized(images, Preprocess(size=(8, 8)))
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, resized(images, Preprocess(size=(8, 8))))
