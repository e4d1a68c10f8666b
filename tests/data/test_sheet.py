"""The page of pictures shows what training will see: its own crops, draws and colours, and captions that are true."""

import io
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from patchwords.data.augment.augment import Augment
from patchwords.data.augment.policy import RandAugment
from patchwords.data.finish import Finish
from patchwords.data.glimpses import Glimpses
from patchwords.data.loader import Cut
from patchwords.data.mix import Mix
from patchwords.data.order import Order
from patchwords.data.preprocess import IMAGENET, Preprocess
from patchwords.data.sheet import ENLARGED, GAP, LINE, MIXED, ROWS, TITLE, VIEWS, draw, look, visible
from patchwords.data.sources.arrays import Arrays
from patchwords.data.sources.source import Source
from patchwords.data.transforms import RandomCrop, WholeCrop, standardise
from patchwords.errors import DataError

SIDE = 16
PREPROCESS = Preprocess(size=(SIDE, SIDE))
STILL = Augment(flip=0.0)
CLASSES = ("red", "blue")


class Files(Source):
    """Bytes by number, some of which are no pictures."""

    def __init__(self, raw: list[bytes], labels: list[int]):
        self.raw = raw
        self.labels = np.array(labels)

    def picture(self, index: int) -> bytes:
        return self.raw[index]

    def name(self, index: int) -> str:
        return f"{index}.png"

    def size(self, index: int) -> int:
        return len(self.raw[index])


def noise(count: int = 12, channels: int = 3, side: int = SIDE) -> Arrays:
    images = np.random.default_rng(0).integers(0, 256, (count, side, side, channels), dtype=np.uint8)
    return Arrays(images, np.arange(count) % 2, "images")


def parts(
    source: Source, *, crop: Any = None, augment: Augment = STILL, mix: Mix | None = None, seed: int = 0, **changes: Any
) -> tuple[Cut, Finish]:
    preprocess = replace(PREPROCESS, **changes)
    channels = len(preprocess.mean)
    cut = Cut(source, crop or WholeCrop(), preprocess, channels, seed)
    return cut, Finish(augment, mix or Mix(), preprocess, 2, seed)


def coloured(count: int = 8) -> Arrays:
    """Red pictures of class 0, blue ones of class 1."""
    images = np.zeros((count, SIDE, SIDE, 3), dtype=np.uint8)
    labels = np.arange(count) % 2
    images[labels == 0, :, :, 0] = 255
    images[labels == 1, :, :, 2] = 255
    return Arrays(images, labels, "images")


def test_where_nothing_is_changed_every_view_is_what_evaluation_sees() -> None:
    seen = look(*parts(noise(), mean=IMAGENET.mean, deviation=IMAGENET.deviation), CLASSES)
    assert len(seen.columns) == 1 + VIEWS
    first = seen.columns[0]
    assert first.images.shape == (ROWS, 3, SIDE, SIDE)
    for column in seen.columns[1:]:
        np.testing.assert_array_equal(column.images, first.images)
        assert column.captions == first.captions


def test_the_pictures_are_the_first_of_the_first_pass() -> None:
    source = noise()
    indices, _ = Order(3, len(source)).take(0, ROWS)
    assert look(*parts(source, seed=3), CLASSES).names == [source.name(int(index)) for index in indices]


def test_a_view_is_the_batch_that_training_makes_of_it() -> None:
    policy = RandAugment(magnitude=9.0)
    cut, finish = parts(
        noise(side=24), crop=RandomCrop(), augment=Augment(flip=0.5, policy=policy, jitter=0.3, erase=0.5)
    )
    seen = look(cut, finish, CLASSES)
    indices, _ = Order(0, len(cut.source)).take(0, ROWS)
    for view in (0, 5):
        views = np.full(ROWS, view)
        pictures = cut((indices, views))
        images, labels = torch.from_numpy(pictures.images), torch.from_numpy(pictures.labels)
        batch = finish(images, labels, indices=indices, views=views, step=view, progress=0.0)
        np.testing.assert_array_equal(seen.columns[1 + view].images, visible(batch["image"], PREPROCESS))
    assert not np.array_equal(seen.columns[1].images, seen.columns[6].images)


def test_every_crop_of_a_picture_is_shown_as_the_batch_has_it() -> None:
    glimpses = Glimpses(large=1, small=2, scale=(0.1, 0.4), size=(8, 6))
    cut, finish = parts(noise(), crop=RandomCrop(scale=(0.5, 1.0)), augment=Augment())
    cut, finish = replace(cut, glimpses=glimpses), replace(finish, glimpses=glimpses)
    seen = look(cut, finish, CLASSES)
    assert [column.heading for column in seen.columns] == [
        "evaluation",
        *(f"view 0, {crop}" for crop in ("large 1", "large 2", "small 1", "small 2")),
    ]
    indices, views = Order(0, 12).take(0, ROWS)
    shown = cut((indices, views))
    further = {name: torch.from_numpy(crops) for name, crops in shown.further.items()}
    batch = finish(
        *map(torch.from_numpy, (shown.images, shown.labels)),
        indices=indices,
        views=views,
        step=0,
        progress=0.0,
        further=further,
    )
    for column, crops in zip(seen.columns[1:], (*batch["large"].unbind(1), *batch["small"].unbind(1)), strict=True):
        np.testing.assert_array_equal(column.images, visible(crops, PREPROCESS))
    with Image.open(io.BytesIO(draw(seen, "crops"))) as page:
        small = max(ENLARGED // SIDE * 6, 6 * LINE)
        assert page.width == GAP + 3 * (ENLARGED + GAP) + 2 * (small + GAP)


def test_a_view_after_the_other_is_shown_while_there_is_room_for_all_its_crops() -> None:
    cut, finish = parts(noise(), crop=RandomCrop())
    for small, views in ((0, 3), (1, 2), (9, 1)):
        glimpses = Glimpses(large=1, small=small, size=(8, 8))
        columns = look(replace(cut, glimpses=glimpses), replace(finish, glimpses=glimpses), CLASSES).columns
        assert len(columns) == 1 + views * (2 + small)


def test_another_seed_gives_another_page() -> None:
    pages = [draw(look(*parts(noise(), crop=RandomCrop(), seed=seed), CLASSES), "") for seed in (0, 0, 1)]
    assert pages[0] == pages[1]
    assert pages[0] != pages[2]


def test_normalisation_is_undone_exactly() -> None:
    images = torch.arange(256, dtype=torch.uint8).reshape(1, 1, 16, 16).repeat(1, 3, 1, 1)
    np.testing.assert_array_equal(visible(standardise(images / 255, IMAGENET), IMAGENET), images.numpy())


def test_the_last_views_are_mixed_by_each_way_in_turn() -> None:
    seen = look(*parts(noise(), mix=Mix(mixup=0.8, cutmix=1.0)), CLASSES)
    assert [column.heading for column in seen.columns[-MIXED:]] == ["view 4, Mixup", "view 5, CutMix", "view 6, Mixup"]
    assert [column.heading for column in seen.columns[1:-MIXED]] == ["view 0", "view 1", "view 2", "view 3"]
    for column in seen.columns[1:-MIXED]:
        np.testing.assert_array_equal(column.images, seen.columns[0].images)


@pytest.mark.parametrize("mix", [Mix(mixup=0.8), Mix(cutmix=1.0), Mix(mixup=0.8, cutmix=1.0, probability=0.1)])
def test_the_captions_of_mixed_pictures_say_how_much_of_each_is_there(mix: Mix) -> None:
    seen = look(*parts(coloured(), mix=mix), CLASSES)
    for column in seen.columns[-MIXED:]:
        for image, caption in zip(column.images, column.captions, strict=True):
            shares = {name: int(share) / 100 for share, name in (line.split(" % ") for line in caption if "%" in line)}
            if shares:
                assert sum(shares.values()) == pytest.approx(1, abs=0.011)
                assert list(shares.values()) == sorted(shares.values(), reverse=True)
                assert image[0].mean() / 255 == pytest.approx(shares["red"], abs=0.01)
                assert image[2].mean() / 255 == pytest.approx(shares["blue"], abs=0.01)
    assert any(len(caption) == 2 for column in seen.columns[-MIXED:] for caption in column.captions)


def test_a_recipe_that_mixes_never_is_shown_so() -> None:
    seen = look(*parts(coloured(), mix=Mix(mixup=0.8, probability=0.0)), CLASSES)
    assert [column.heading for column in seen.columns[1:]] == [f"view {view}" for view in range(VIEWS)]


def test_colours_and_places_on_the_page_are_right() -> None:
    source = coloured()
    page = Image.open(io.BytesIO(draw(look(*parts(source), CLASSES), "a title")))
    indices, _ = Order(0, len(source)).take(0, ROWS)
    first, middle = GAP + TITLE + LINE, ENLARGED // 2
    down, across = ENLARGED + LINE + GAP, ENLARGED + GAP
    for row, index in enumerate(indices):
        expected = (255, 0, 0) if source.labels[index] == 0 else (0, 0, 255)
        for column in range(1 + VIEWS):
            assert page.getpixel((GAP + across * column + middle, first + down * row + middle)) == expected


def test_tiny_pictures_are_enlarged_to_squares() -> None:
    source = noise(count=1, side=8)
    page = Image.open(io.BytesIO(draw(look(*parts(source, size=(8, 8)), CLASSES), "")))
    times = ENLARGED // 8
    corner = np.asarray(page)[GAP + TITLE + LINE :, GAP:]
    np.testing.assert_array_equal(corner[: 8 * times : times, : 8 * times : times], source.picture(0))
    np.testing.assert_array_equal(corner[times - 1 : 8 * times : times, : 8 * times : times], source.picture(0))


@pytest.mark.parametrize("channels", [1, 2, 5])
def test_any_number_of_channels_can_be_looked_at(channels: int) -> None:
    half = (0.5,) * channels
    page = draw(look(*parts(noise(channels=channels), mean=half, deviation=half), CLASSES), "")
    Image.open(io.BytesIO(page)).verify()


def test_large_pictures_are_reduced() -> None:
    page = Image.open(io.BytesIO(draw(look(*parts(noise(count=1), size=(640, 320)), CLASSES), "")))
    assert page.size[0] < 9 * 140
    assert page.size[1] < 330


@pytest.mark.parametrize(
    ("name", "caption"),
    [
        ("蒲公英", "class 0"),
        ("روز", "class 0"),
        ("\N{GRINNING FACE}", "class 0"),
        ("two\nlines", "class 0"),
        ("Gänseblümchen", "Gänseblümchen"),
        ("x" * 300, "x" * 300),
        ("", ""),
    ],
)
def test_every_class_name_can_be_drawn(name: str, caption: str) -> None:
    seen = look(*parts(coloured(), mix=Mix(mixup=0.8)), (name, "blue"))
    assert [caption] in seen.columns[0].captions
    Image.open(io.BytesIO(draw(seen, name))).verify()


def encoded() -> bytes:
    data = io.BytesIO()
    Image.new("RGB", (20, 20), (9, 9, 9)).save(data, "PNG")
    return data.getvalue()


def test_a_picture_that_cannot_be_read_is_told_and_another_shown() -> None:
    raw = [encoded() for _ in range(10)]
    raw[4] = b"hello"
    seen = look(*parts(Files(raw, [0, 1] * 5)), CLASSES)
    assert len(seen.names) == ROWS
    assert "4.png" not in seen.names
    assert {damage.name for damage in seen.damages} <= {"4.png"}
    assert all(len(column.images) == ROWS for column in seen.columns)


def test_no_readable_picture_is_an_error_that_names_one() -> None:
    with pytest.raises(DataError, match=r"none of the 2 pictures can be read: .\.png"):
        look(*parts(Files([b"a", b"b"], [0, 1])), CLASSES)


def test_fewer_pictures_make_a_smaller_page() -> None:
    seen = look(*parts(noise(count=3), mix=Mix(mixup=0.8)), CLASSES)
    assert len(seen.names) == 3
    Image.open(io.BytesIO(draw(seen, ""))).verify()
