"""Small pictures for pages."""

import io

import numpy as np
import pytest
from PIL import Image

from patchwords.data.thumbnail import SIDE, thumbnail


def encoded(image: Image.Image, kind: str, **more: object) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **more)
    return file.getvalue()


def opened(data: bytes) -> Image.Image:
    return Image.open(io.BytesIO(data))


@pytest.mark.parametrize(
    ("width", "height", "size"),
    [(800, 600, (160, 120)), (600, 800, (120, 160)), (999, 999, (160, 160)), (120, 90, (120, 90)), (3000, 4, (160, 1))],
)  # fmt: skip
def test_a_photograph_becomes_a_jpeg_no_larger_than_the_side(width: int, height: int, size: tuple[int, int]) -> None:
    found = opened(thumbnail(encoded(Image.new("RGB", (width, height), "teal"), "JPEG")))
    assert found.format == "JPEG"
    assert found.size == size


@pytest.mark.parametrize(("side", "times"), [(8, 20), (28, 5), (32, 5), (48, 3)])
def test_a_tiny_picture_is_enlarged_in_whole_steps_without_loss(side: int, times: int) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (side, side, 1), dtype=np.uint8)
    found = opened(thumbnail(pixels))
    assert found.format == "PNG"
    assert found.size == (side * times, side * times)
    assert np.array_equal(np.asarray(found)[::times, ::times, 0], pixels[:, :, 0])


def test_it_is_upright() -> None:
    tags = Image.Exif()
    tags[0x0112] = 6
    found = opened(thumbnail(encoded(Image.new("RGB", (400, 200)), "JPEG", exif=tags)))
    assert found.size == (80, 160)


@pytest.mark.parametrize("mode", ["L", "RGBA", "P", "CMYK", "1"])
def test_every_kind_of_picture_can_be_shown(mode: str) -> None:
    kind = "TIFF" if mode == "CMYK" else "PNG"
    found = opened(thumbnail(encoded(Image.new(mode, (300, 100)), kind)))
    assert found.mode == "RGB"
    assert found.size == (SIDE, 53)


def test_a_smaller_side_may_be_asked_for() -> None:
    assert opened(thumbnail(encoded(Image.new("RGB", (300, 100)), "JPEG"), side=64)).size == (64, 21)
    assert max(opened(thumbnail(np.zeros((40, 40, 3), dtype=np.uint8), side=32)).size) <= 32


@pytest.mark.parametrize("channels", [2, 4, 5])
def test_pictures_of_other_channels_can_be_shown_too(channels: int) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (80, 60, channels), dtype=np.uint8)
    assert opened(thumbnail(pixels)).size == (60, 80)
