"""Picture files made on the spot, so that a comparison goes the whole way of a picture: decoded, turned, resized."""

import io

import numpy as np
from PIL import Image

SIDES = (40, 96, 131, 200, 277, 320, 411)  # pixels; smaller and larger than what models see
ORIENTATION = 0x0112
KINDS = ("JPEG", "PNG", "grey", "turned")


def made(count: int) -> list[bytes]:
    """So many different files, the same ones each time."""
    return [_file(number) for number in range(count)]


def _file(number: int) -> bytes:
    """Soft patches of colour under some noise: neither flat, which says little, nor noise alone, which no one sees."""
    draw = np.random.default_rng(number)
    size = SIDES[number % len(SIDES)], SIDES[(number // 2 + 3) % len(SIDES)]
    coarse = Image.fromarray(draw.integers(0, 256, (4, 5, 3), dtype=np.uint8))
    soft = np.asarray(coarse.resize(size, Image.Resampling.BICUBIC), dtype=np.int16)
    image = Image.fromarray((soft + draw.integers(-24, 25, soft.shape)).clip(0, 255).astype(np.uint8))
    return _encoded(image, KINDS[number % len(KINDS)])


def _encoded(image: Image.Image, kind: str) -> bytes:
    buffer, exif = io.BytesIO(), Image.Exif()
    if kind == "turned":
        exif[ORIENTATION] = 6
    if kind == "grey":
        image = image.convert("L")
    image.save(buffer, "PNG" if kind in ("PNG", "grey") else "JPEG", exif=exif)
    return buffer.getvalue()
