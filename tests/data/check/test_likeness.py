"""Near copies are found however they were saved, and strangers are not taken for copies."""

import io
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageEnhance, ImageOps

from patchwords.data.check import likeness
from patchwords.data.check.likeness import Look, groups, look, near_pairs
from patchwords.data.picture import decode

FLOWERS = Path(__file__).resolve().parents[4] / "shared" / "data" / "flower_photos"


def photo(seed: int, width: int = 300, height: int = 224) -> Image.Image:
    """Something like a photo: coarse and fine shapes in colours."""
    random = np.random.default_rng(seed)
    layers = []
    for cells, strength in ((5, 1.0), (12, 0.6), (40, 0.3)):
        noise = Image.fromarray(random.integers(0, 256, (cells, cells, 3), dtype=np.uint8))
        layers.append(strength * np.asarray(noise.resize((width, height), Image.Resampling.BICUBIC), dtype=float))
    return Image.fromarray((sum(layers) / 1.9).astype(np.uint8))


def saved(image: Image.Image, format: str = "JPEG", **options: object) -> Image.Image:
    file = io.BytesIO()
    image.save(file, format, **options)  # type: ignore[arg-type]
    return decode(file.getvalue(), 3, least=(64, 64))


COPIES = {
    "quality 60": lambda image: saved(image, quality=60),
    "quality 20": lambda image: saved(image, quality=20),
    "half the size": lambda image: saved(image.resize((image.width // 2, image.height // 2)), quality=90),
    "twice the size": lambda image: saved(image.resize((image.width * 2, image.height * 2)), "WEBP"),
    "as PNG": lambda image: saved(image, "PNG"),
    "grey": lambda image: saved(image.convert("L")),
    "darker": lambda image: saved(ImageEnhance.Brightness(image).enhance(0.7)),
    "stretched": lambda image: saved(image.resize((image.width, image.height * 3 // 4))),
}


@pytest.mark.parametrize("copy", COPIES)
def test_a_copy_is_found_when_it_was_saved(copy: str) -> None:
    originals = [photo(seed) for seed in range(8)]
    looks = [look(image) for image in originals] + [look(COPIES[copy](image)) for image in originals]
    assert set(near_pairs(looks)) == {(i, i + 8) for i in range(8)}


def test_a_symmetric_picture_is_found_too() -> None:
    half = photo(1, 150, 224)
    whole = Image.new("RGB", (300, 224))
    whole.paste(half, (0, 0))
    whole.paste(ImageOps.mirror(half), (150, 0))
    assert list(near_pairs([look(whole), look(saved(whole, quality=50)), look(photo(2))])) == [(0, 1)]


def test_strangers_are_not_taken_for_copies() -> None:
    looks = [look(photo(seed, 96, 80)) for seed in range(400)]
    assert list(near_pairs(looks)) == []


def test_empty_pictures_are_not_compared() -> None:
    looks = [look(Image.new("RGB", (64, 64), (level, level, level))) for level in (0, 5, 250, 255)]
    assert list(near_pairs(looks)) == []
    assert list(near_pairs([])) == []


def test_fifty_thousand_pictures_take_seconds() -> None:
    random = np.random.default_rng(0)
    small = random.integers(0, 256, (5000, 16, 16), dtype=np.uint8)
    signs = random.integers(0, 2**63, 5000, dtype=np.uint64)
    looks = [Look(int(bits), picture) for bits, picture in zip(signs, small, strict=True)]
    looks += looks[:10]
    started = time.perf_counter()
    assert len(list(near_pairs(looks))) == 10
    assert 100 * (time.perf_counter() - started) < 100  # ten times as many are a hundred times as many pairs


def test_many_that_are_all_alike_make_one_group_of_few_pairs() -> None:
    looks = [look(photo(3))] * 1000
    pairs = list(near_pairs(looks))
    assert len(pairs) <= 1000 * likeness.NEIGHBOURS
    assert groups(1000, iter(pairs)) == [list(range(1000))]


def test_groups_are_what_pairs_connect() -> None:
    assert groups(7, iter([(0, 3), (5, 6), (3, 4)])) == [[0, 3, 4], [5, 6]]
    assert groups(3, iter([])) == []


@pytest.mark.skipif(not FLOWERS.is_dir(), reason="needs the flower photos")
def test_flower_photos_saved_again_are_found_and_others_are_not() -> None:
    files = sorted(FLOWERS.glob("*/*.jpg"))[::60]
    images = [Image.open(file).convert("RGB") for file in files]
    count = len(images)
    looks = [look(image) for image in images]
    looks += [look(saved(image, quality=60)) for image in images]
    looks += [look(saved(image.resize((image.width // 2, image.height // 2)))) for image in images]
    found = {tuple(number % count for number in group) for group in groups(3 * count, near_pairs(looks))}
    assert found == {(i, i, i) for i in range(count)}
