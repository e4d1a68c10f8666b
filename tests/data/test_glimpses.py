"""Several crops of a picture: each at its own address, all from one decoding, together through the whole data path."""

import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from patchwords.data import loader, transforms
from patchwords.data.augment.augment import Augment
from patchwords.data.augment.byol import Byol
from patchwords.data.broken import Broken
from patchwords.data.cache import Held, hold
from patchwords.data.finish import Finish
from patchwords.data.glimpses import FIRST, Glimpses, kinds, numbered
from patchwords.data.loader import Cut, Loading, Pictures, shown
from patchwords.data.mix import Mix
from patchwords.data.order import Order, share
from patchwords.data.preprocess import Preprocess
from patchwords.data.sources.arrays import Arrays
from patchwords.data.sources.files import Files
from patchwords.data.sources.names import Names
from patchwords.data.sources.source import Source
from patchwords.data.transforms import RandomCrop, WholeCrop, boxes, cut
from patchwords.errors import UsageError
from patchwords.settings import read, write
from patchwords.training.feed import Cached, Streamed
from patchwords.training.recipe import DataRecipe

CPU = torch.device("cpu")
COUNT, SEED = 10, 5
SHOWN = Preprocess(size=(24, 20))
CROP = RandomCrop(scale=(0.4, 1.0))
SOME = Glimpses(large=1, small=3, scale=(0.1, 0.4), size=(8, 12))
INDICES, VIEWS = np.arange(COUNT), np.arange(COUNT) % 3


def smooth(number: int) -> np.ndarray:
    rows, cols = np.mgrid[0 : 60 + 4 * (number % 3), 0 : 70 + 5 * (number % 4)]
    waves = [128 + 100 * np.sin(rows / 20 + shift + number) * np.cos(cols / 25) for shift in (0, 1, 2)]
    return np.stack(waves, axis=2).astype(np.uint8)


@pytest.fixture
def source() -> Arrays:
    pixels = np.stack([smooth(12 * number) for number in range(COUNT)])
    return Arrays(pixels, np.arange(COUNT), "train")


def written(folder: Path, broken: tuple[int, ...] = ()) -> Files:
    names = [f"{number:02}.jpg" for number in range(COUNT)]
    for number, name in enumerate(names):
        file = io.BytesIO()
        Image.fromarray(np.repeat(np.repeat(smooth(number), 4, 0), 4, 1)).save(file, "JPEG", quality=95)
        content = file.getvalue()
        (folder / name).write_bytes(content[: len(content) // 2] if number in broken else content)
    return Files(folder, Names(names), np.arange(COUNT))


def cutting(source: Source, glimpses: Glimpses = SOME, preprocess: Preprocess = SHOWN) -> Cut:
    return Cut(source, CROP, preprocess, 3, SEED, glimpses)


def quiet() -> Broken:
    return Broken(1.0, COUNT, lambda note: None)


def held(source: Source, preprocess: Preprocess = SHOWN) -> Held:
    return hold(source, CROP, preprocess, 3, CPU, Loading(workers=0), quiet(), lambda done, total: None)


def assert_equal(one: Pictures, other: Pictures) -> None:
    assert np.array_equal(one.images, other.images)
    assert one.further.keys() == other.further.keys()
    for name, stack in one.further.items():
        assert np.array_equal(stack, other.further[name])


# Addresses


def test_the_first_crop_has_the_address_of_its_sample() -> None:
    views = np.array([0, 1, 7, 1 << 39])
    assert np.array_equal(numbered(views, 0), views)


def test_no_two_crops_of_any_views_share_an_address() -> None:
    numbers = np.concatenate([part.numbers for part in Glimpses(large=7, small=20).parts(CROP, (8, 8))])
    views = np.array([0, 1, 2, 1000, (1 << 40) - 1])
    addresses = numbered(views[:, None], numbers)
    assert len(np.unique(addresses)) == addresses.size == 5 * 28
    assert addresses.min() >= 0


def test_a_view_knows_what_sort_of_crop_it_is_of() -> None:
    numbers = np.array([0, FIRST["large"], FIRST["large"] + 5, FIRST["small"], FIRST["small"] + 9])
    assert kinds(numbered(np.full(5, 123), numbers)).tolist() == [0, 1, 1, 2, 2]


# Cut from files


def test_without_glimpses_everything_is_as_it_was(source: Arrays) -> None:
    found = Cut(source, CROP, SHOWN, 3, SEED)((INDICES, VIEWS))
    sizes = np.array([source.picture(index).shape[:2] for index in INDICES])
    places = boxes(CROP, sizes, SHOWN, seed=SEED, views=VIEWS, indices=INDICES)
    by_hand = [cut(source.picture(i), box, SHOWN.size, "bilinear", 3) for i, box in zip(INDICES, places, strict=True)]
    assert found.further == {}
    assert np.array_equal(found.images, np.stack(by_hand))


def test_every_crop_is_cut_at_its_own_address(source: Arrays) -> None:
    found = cutting(source)((INDICES, VIEWS))
    assert np.array_equal(found.images, Cut(source, CROP, SHOWN, 3, SEED)((INDICES, VIEWS)).images)
    assert found.further["large"].shape == (COUNT, 1, 3, 24, 20)
    assert found.further["small"].shape == (COUNT, 3, 3, 8, 12)
    assert found.further["small"].dtype == np.uint8
    sizes = np.array([source.picture(index).shape[:2] for index in INDICES])
    for name, crop, size in (("large", CROP, SHOWN.size), ("small", RandomCrop(scale=(0.1, 0.4)), (8, 12))):
        for place in range(found.further[name].shape[1]):
            views = numbered(VIEWS, FIRST[name] + place)
            where = boxes(crop, sizes, SHOWN, seed=SEED, views=views, indices=INDICES)
            for index, box in zip(INDICES, where, strict=True):
                by_hand = cut(source.picture(index), box, size, "bilinear", 3)
                assert np.array_equal(found.further[name][index, place], by_hand)


def test_small_crops_show_small_parts(source: Arrays) -> None:
    many = np.zeros(400, dtype=np.int64)
    sizes = np.tile([60, 70], (400, 1))
    (part,) = [part for part in SOME.parts(CROP, (24, 20)) if part.name == "small"]
    views = numbered(many, part.numbers[0])
    top, left, bottom, right = boxes(part.crop, sizes, SHOWN, seed=0, views=views, indices=np.arange(400)).T
    areas = (bottom - top) * (right - left) / (60 * 70)
    assert 0.09 < areas.min() < areas.max() < 0.42


def test_a_picture_is_decoded_once_for_all_its_crops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, decoded = written(tmp_path), []
    opened = transforms.open_picture

    def counted(raw: bytes, *rest: str) -> object:
        decoded.append(raw)
        return opened(raw, *rest)

    monkeypatch.setattr(transforms, "open_picture", counted)
    cutting(source)((INDICES, VIEWS))
    assert len(decoded) == COUNT


@pytest.mark.parametrize("count", [1, 3])
def test_any_number_of_workers_cuts_the_same(tmp_path: Path, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loader, "CHUNK", 3)  # so that parts of a batch are joined
    order, work = Order(1, COUNT), cutting(written(tmp_path))
    alone = list(shown(work, order, 8, slice(None), range(2), Loading(workers=0), quiet()))
    for one, other in zip(
        alone, shown(work, order, 8, slice(None), range(2), Loading(workers=count), quiet()), strict=True
    ):
        assert_equal(one, other)
        assert len(one.further["small"]) == 8


def test_all_crops_of_a_broken_picture_are_of_the_next_one(tmp_path: Path) -> None:
    damaged = cutting(written(tmp_path, (4,)))((INDICES, VIEWS))
    assert damaged.labels.tolist() == [0, 1, 2, 3, 5, 5, 6, 7, 8, 9]
    assert [damage.name for damage in damaged.damages] == ["04.jpg"]
    assert damaged.further["large"].shape == (COUNT, 1, 3, 24, 20)
    whole = [damaged.images[4], damaged.further["large"][4, 0]]  # as evaluation sees it
    assert np.array_equal(*whole)
    assert np.array_equal(damaged.further["small"][4, 0], damaged.further["small"][4, 2])


# Cut from a cache


def test_crops_from_a_cache_are_those_from_files(tmp_path: Path) -> None:
    source, preprocess = written(tmp_path), Preprocess(size=(96, 80))
    glimpses = replace(SOME, size=(32, 24))
    streamed = cutting(source, glimpses, preprocess)((INDICES, VIEWS))
    parts = glimpses.parts(CROP, preprocess.size)
    crops = held(source, preprocess).crops(parts, preprocess, CPU, seed=SEED, views=VIEWS, indices=INDICES)
    assert list(crops) == ["image", "large", "small"]
    for name, stack in {"image": streamed.images[:, None], **streamed.further}.items():
        assert crops[name].shape == stack.shape
        difference = np.abs(crops[name].numpy().astype(int) - stack.astype(int))
        assert difference.mean() < 1.5


# The feed


def feeds(source: Source, part: slice = slice(None)) -> list[Streamed | Cached]:
    work, order = cutting(source), Order(1, COUNT)
    return [
        Streamed(work, order, 6, part, Loading(workers=0), quiet()),
        Cached(held(source), work, order, 6, part, CPU),
    ]


@pytest.mark.parametrize("which", [0, 1], ids=["streamed", "cached"])
def test_processes_share_the_crops_of_every_batch(source: Arrays, which: int) -> None:
    whole = list(feeds(source)[which].batches(0, 3))
    parts = [list(feeds(source, share(6, rank, 2))[which].batches(0, 3)) for rank in range(2)]
    for step, one in enumerate(whole):
        for name in ("large", "small"):
            joined = torch.cat([parts[rank][step].further[name] for rank in range(2)])
            assert torch.equal(joined, one.further[name])


# The batch


def finished(source: Arrays, rows: slice = slice(None), augment: Augment | None = None) -> dict[str, torch.Tensor]:
    found = cutting(source)((INDICES[rows], VIEWS[rows]))
    finish = Finish(augment or Augment(policy=Byol(), erase=0.3), Mix(), SHOWN, COUNT, SEED, SOME)
    images, labels = torch.from_numpy(found.images), torch.from_numpy(found.labels)
    further = {name: torch.from_numpy(stack) for name, stack in found.further.items()}
    address = {"indices": found.indices, "views": found.views, "step": 0, "progress": 0.0}
    return finish(images, labels, further=further, **address)


def test_the_large_crops_of_a_batch_are_the_first_and_the_others(source: Arrays) -> None:
    batch = finished(source)
    assert batch["large"].shape == (COUNT, 2, 3, 24, 20)
    assert batch["small"].shape == (COUNT, 3, 3, 8, 12)
    assert torch.equal(batch["large"][:, 0], batch["image"])
    assert set(batch) == set(Finish(Augment(), Mix(), SHOWN, COUNT, SEED, SOME).gives)


def test_the_first_crop_is_what_it_would_be_alone(source: Arrays) -> None:
    found = Cut(source, CROP, SHOWN, 3, SEED)((INDICES, VIEWS))
    finish = Finish(Augment(policy=Byol(), erase=0.3), Mix(), SHOWN, COUNT, SEED)
    images, labels = torch.from_numpy(found.images), torch.from_numpy(found.labels)
    alone = finish(images, labels, indices=INDICES, views=VIEWS, step=0, progress=0.0)
    assert set(alone) == set(finish.gives) == {"image", "target"}
    assert torch.equal(alone["image"], finished(source)["image"])


def test_pieces_of_a_batch_are_its_rows(source: Arrays) -> None:
    whole = finished(source)
    pieces = [finished(source, slice(start, start + 4)) for start in range(0, COUNT, 4)]
    for name, stack in whole.items():
        if name != "target":
            assert torch.equal(torch.cat([piece[name] for piece in pieces]), stack)


def test_every_crop_is_mirrored_by_its_own_draw(source: Arrays) -> None:
    batch, plain = finished(source, augment=Augment(flip=0.5)), finished(source, augment=Augment(flip=0.0))
    crops = torch.cat([batch["large"].flatten(3), batch["small"].flatten(3).repeat(1, 1, 1, 5)], 1)
    kept = torch.cat([plain["large"].flatten(3), plain["small"].flatten(3).repeat(1, 1, 1, 5)], 1)
    mirrored = (crops != kept).flatten(2).any(2)  # (batch, crops)
    assert 0.25 < mirrored.float().mean() < 0.75
    assert (mirrored.any(1) & ~mirrored.all(1)).any()  # not all of a picture's alike


def test_only_small_ones_leave_the_first_large_one_alone(source: Arrays) -> None:
    glimpses = Glimpses(small=2, size=(8, 8))
    found = cutting(source, glimpses)((INDICES, VIEWS))
    finish = Finish(Augment(), Mix(), SHOWN, COUNT, SEED, glimpses)
    further = {name: torch.from_numpy(stack) for name, stack in found.further.items()}
    images, labels = torch.from_numpy(found.images), torch.from_numpy(found.labels)
    batch = finish(images, labels, indices=INDICES, views=VIEWS, step=0, progress=0.0, further=further)
    assert batch["large"].shape == (COUNT, 1, 3, 24, 20)
    assert batch["small"].shape == (COUNT, 2, 3, 8, 8)


# Settings


def test_settings_are_read_as_they_are_written() -> None:
    assert read(write(SOME), Glimpses) == SOME
    assert read({"large": 1, "small": 8, "size": 96}, Glimpses).size == (96, 96)
    assert Glimpses().gives == ()
    assert Glimpses(large=1).gives == ("large",)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"large": -1}, "large -1 is below 0"),
        ({"small": 1, "scale": (0.5, 0.2)}, "is not a least and a most share"),
        ({"small": 1, "size": (0, 8)}, "size 0 is below 1"),
        ({"small": 5000}, "too many"),
    ],
)
def test_settings_that_mean_nothing_are_refused(given: dict, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        Glimpses(**given)


def test_what_does_not_go_with_glimpses_is_refused() -> None:
    with pytest.raises(UsageError, match='for glimpses choose crop "random"'):
        DataRecipe(glimpses=SOME, crop=WholeCrop())
    with pytest.raises(UsageError, match="glimpses are not mixed"):
        DataRecipe(glimpses=SOME, mix=Mix(mixup=0.2))
    DataRecipe(crop=WholeCrop(), mix=Mix(mixup=0.2))
