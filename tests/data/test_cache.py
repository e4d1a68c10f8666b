"""Decoded pictures in memory are cut as files are: same labels, same order, same crops within a few grey levels."""

import io
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from patchwords.data import cache, loader
from patchwords.data.broken import Broken
from patchwords.data.cache import Held, hold
from patchwords.data.loader import Cut, Loading, Prepare
from patchwords.data.preprocess import Preprocess
from patchwords.data.sources.arrays import Arrays
from patchwords.data.sources.files import Files
from patchwords.data.sources.names import Names
from patchwords.data.sources.source import Source, Subset
from patchwords.data.transforms import CropKind, PaddedCrop, RandomCrop, WholeCrop, prepare
from patchwords.errors import DataError, ResourceError

SQUASHED = Preprocess(size=(42, 56))
COUNT = 14
CPU = torch.device("cpu")
TEXT = b"no picture"


def smooth(number: int) -> np.ndarray:
    """Large enough to be cut from, and without details that a resize would lose."""
    rows, cols = np.mgrid[0 : 150 + 10 * (number % 3), 0 : 170 + 15 * (number % 4)]
    waves = [128 + 100 * np.sin(rows / 40 + shift + number) * np.cos(cols / 50) for shift in (0, 1, 2)]
    return np.stack(waves, axis=2).astype(np.uint8)


def jpeg(number: int) -> bytes:
    file = io.BytesIO()
    Image.fromarray(smooth(number)).save(file, "JPEG", quality=95)
    return file.getvalue()


def written(folder: Path, broken: dict[int, bytes] | None = None) -> Files:
    """Labels are the pictures' numbers."""
    names = [f"{number:02}.jpg" for number in range(COUNT)]
    for number, name in enumerate(names):
        (folder / name).write_bytes((broken or {}).get(number) or jpeg(number))
    return Files(folder, Names(names), np.arange(COUNT))


@pytest.fixture
def photos(tmp_path: Path) -> Files:
    return written(tmp_path)


def held(
    source: Source,
    crop: CropKind | None,
    preprocess: Preprocess = SQUASHED,
    *,
    count: int = 0,
    channels: int = 3,
    broken: Broken | None = None,
) -> Held:
    broken = broken or Broken(1.0, len(source), lambda note: None)
    loading = Loading(workers=count)
    return hold(source, crop, preprocess, channels, CPU, loading, broken, lambda done, total: None)


def both(
    source: Source, crop: CropKind, preprocess: Preprocess, indices: np.ndarray, views: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The same pictures cut from files and from a cache."""
    streamed = Cut(source, crop, preprocess, 3, seed=5)((indices, views)).images
    cached = held(source, crop, preprocess).cut(crop, preprocess, CPU, seed=5, views=views, indices=indices)
    assert cached.dtype == torch.uint8
    return streamed.astype(int), cached.numpy().astype(int)


CROPS = [
    RandomCrop(scale=(0.2, 1.0)),
    RandomCrop(scale=(0.05, 1.0), sampling="inception"),
    PaddedCrop(pixels=4),
    WholeCrop(),
]


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic", "lanczos"])
@pytest.mark.parametrize("crop", CROPS, ids=lambda crop: f"{crop.kind} {getattr(crop, 'sampling', '')}")
def test_crops_from_a_cache_are_those_from_files(photos: Files, crop: CropKind, interpolation: str) -> None:
    preprocess = replace(SQUASHED, interpolation=interpolation)  # type: ignore[arg-type]
    indices, views = np.tile(np.arange(COUNT), 2), np.repeat([0, 3], COUNT)
    streamed, cached = both(photos, crop, preprocess, indices, views)
    difference = np.abs(streamed - cached)
    assert difference.mean() < 1.0
    assert np.quantile(difference, 0.999) <= 5


def test_the_interpolation_that_is_asked_for_is_used(photos: Files) -> None:
    rough = np.random.default_rng(0).integers(0, 256, (4, 90, 90, 3), dtype=np.uint8)
    source, crop = Arrays(rough, np.arange(4), "train"), RandomCrop(scale=(0.1, 0.3))
    indices = np.arange(4)
    kinds = [
        held(source, crop, replace(SQUASHED, interpolation=kind)).images  # type: ignore[arg-type]
        for kind in ("bilinear", "bicubic")
    ]
    assert not torch.equal(*kinds)
    same = held(source, crop, SQUASHED)
    cuts = [
        same.cut(crop, replace(SQUASHED, interpolation=kind), CPU, seed=1, views=0 * indices, indices=indices)
        for kind in ("bilinear", "bicubic")  # type: ignore[arg-type]
    ]
    assert not torch.equal(*cuts)


def test_more_pictures_than_are_cut_at_a_time_are_cut_alike(photos: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    found, crop = held(photos, RandomCrop()), RandomCrop()
    indices, views = np.tile(np.arange(COUNT), 2), np.repeat([0, 3], COUNT)
    whole = found.cut(crop, SQUASHED, CPU, seed=5, views=views, indices=indices)
    for size in (1, 5, 2 * COUNT, 100):
        monkeypatch.setattr(cache, "PIECE", size)
        assert torch.equal(found.cut(crop, SQUASHED, CPU, seed=5, views=views, indices=indices), whole)


def test_whole_pictures_are_the_streams_to_the_bit(photos: Files) -> None:
    preprocess = Preprocess(size=(40, 40), fit="crop", interpolation="bicubic")
    indices = np.array([3, 0, 9, 3])
    found = held(photos, WholeCrop(), preprocess)
    cached = found.cut(WholeCrop(), preprocess, CPU, seed=0, views=0 * indices, indices=indices)
    assert np.array_equal(cached.numpy(), Prepare(photos, preprocess, 3)(indices).images)


def test_small_arrays_are_padded_exactly_as_the_stream_pads_them() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (6, 8, 8, 1), dtype=np.uint8)
    source = Arrays(pixels, np.arange(6), "train")
    preprocess = Preprocess(size=(8, 8), mean=(0.5,), deviation=(0.5,))
    indices, views = np.tile(np.arange(6), 5), np.repeat(np.arange(5), 6)
    crop = PaddedCrop(pixels=2)
    streamed = Cut(source, crop, preprocess, 1, seed=2)((indices, views)).images
    cached = held(source, crop, preprocess, channels=1).cut(crop, preprocess, CPU, seed=2, views=views, indices=indices)
    assert np.array_equal(cached.numpy(), streamed)


def test_arrays_of_the_wanted_size_are_held_as_they_are_without_pillow(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise AssertionError("decoded one by one")

    monkeypatch.setattr(loader, "prepare", refused)
    pixels = np.random.default_rng(0).integers(0, 256, (200, 8, 9, 3), dtype=np.uint8)
    source = Subset(Arrays(pixels, np.arange(200) % 7, "train"), np.arange(199, 0, -1))
    for crop in (None, PaddedCrop(), WholeCrop()):
        found = held(source, crop, Preprocess(size=(8, 9)))
        assert np.array_equal(found.images.numpy(), pixels[:0:-1].transpose(0, 3, 1, 2))
        assert found.labels.tolist() == source.labels.tolist()
        assert found.sizes.tolist() == [[8, 9]] * 199
        assert found.indices.tolist() == list(range(199))


@pytest.mark.parametrize(
    "preprocess", [Preprocess(size=(8, 9), fit="crop"), Preprocess(size=(9, 8))], ids=["fit", "size"]
)
def test_arrays_that_must_be_changed_are_changed(preprocess: Preprocess) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (5, 8, 9, 3), dtype=np.uint8)
    found = held(Arrays(pixels, np.arange(5), "train"), None, preprocess)
    wanted = [prepare(picture, preprocess, 3) for picture in pixels]
    assert np.array_equal(found.images.numpy(), np.stack(wanted))


def test_for_evaluation_the_pictures_are_what_evaluation_sees(photos: Files) -> None:
    found = held(photos, None)
    assert np.array_equal(found.images.numpy(), Prepare(photos, SQUASHED, 3)(np.arange(COUNT)).images)
    assert found.labels.tolist() == found.indices.tolist() == list(range(COUNT))


def test_what_will_be_cut_is_kept_a_little_larger_and_whole(photos: Files) -> None:
    found = held(photos, RandomCrop(), replace(SQUASHED, fit="crop"))
    assert found.images.shape == (COUNT, 3, 48, 64)  # 8 / 7 of 42x56
    larger = Preprocess(size=(48, 64))
    assert np.array_equal(found.images.numpy(), Prepare(photos, larger, 3)(np.arange(COUNT)).images)
    assert found.sizes.tolist() == [list(smooth(number).shape[:2]) for number in range(COUNT)]


@pytest.mark.parametrize("count", [1, 3])
def test_any_number_of_workers_fills_the_same_cache(photos: Files, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "CHUNK", 4)
    alone, together = held(photos, RandomCrop()), held(photos, RandomCrop(), count=count)
    assert torch.equal(alone.images, together.images)
    for name in ("labels", "sizes", "indices"):
        assert np.array_equal(getattr(alone, name), getattr(together, name))


def test_progress_is_told_up_to_the_end(photos: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "CHUNK", 5)
    told: list[tuple[int, int]] = []
    broken = Broken(1.0, COUNT, lambda note: None)
    hold(photos, None, SQUASHED, 3, CPU, Loading(workers=0), broken, lambda done, total: told.append((done, total)))
    assert told == [(5, COUNT), (10, COUNT), (14, COUNT)]


# Broken pictures


def test_broken_pictures_are_named_and_replaced_by_the_next_that_is_not(tmp_path: Path) -> None:
    source = written(tmp_path, {4: TEXT, 5: jpeg(5)[:-2000], COUNT - 1: TEXT})
    broken = Broken(1.0, COUNT, lambda note: None)
    found = held(source, WholeCrop(), broken=broken)
    assert sorted(broken.found) == ["04.jpg", "05.jpg", "13.jpg"]
    assert len(found.labels) == len(found.images) == len(found.sizes) == COUNT - 3
    indices = np.arange(COUNT)
    labels = found.labels[found.rows(indices)]
    assert labels.tolist() == [0, 1, 2, 3, 6, 6, 6, 7, 8, 9, 10, 11, 12, 0]
    assert np.array_equal(labels, Cut(source, WholeCrop(), SQUASHED, 3, 0)((indices, 0 * indices)).labels)
    images = found.cut(WholeCrop(), SQUASHED, CPU, seed=0, views=0 * indices, indices=indices).numpy()
    assert np.array_equal(images[4], images[6])
    assert np.array_equal(images[13], images[0])


@pytest.mark.parametrize("count", [0, 2])
def test_too_many_broken_pictures_are_an_error_and_leave_no_process(count: int, tmp_path: Path) -> None:
    source = written(tmp_path, {4: TEXT})
    with pytest.raises(DataError, match="1 of 14") as caught:
        held(source, None, count=count, broken=Broken(0.001, COUNT, lambda note: None))
    assert caught.value.exit_code == 3
    children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children")
    assert not children.exists() or children.read_text().split() == []


def test_a_cache_of_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="none of the pictures can be read"):
        held(written(tmp_path, dict.fromkeys(range(COUNT), TEXT)), None)


def test_no_room_is_an_error_that_says_how_much_and_what_to_do(photos: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise torch.OutOfMemoryError("the device is full")

    monkeypatch.setattr(torch, "empty", full)
    with pytest.raises(ResourceError, match=r"98,784 bytes on cpu.*data\.cache"):
        held(photos, None)
