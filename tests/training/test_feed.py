"""The batches of a run: the same from files and from a cache, from any step, for any number of processes."""

import io
import multiprocessing
import threading
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from patchwords.data import loader, nvjpeg
from patchwords.data.broken import Broken
from patchwords.data.cache import Held, hold
from patchwords.data.loader import Cut, Loading, Prepare
from patchwords.data.order import Order, share
from patchwords.data.preprocess import Preprocess
from patchwords.data.sources.arrays import Arrays
from patchwords.data.sources.files import Files
from patchwords.data.sources.names import Names
from patchwords.data.transforms import CropKind, PaddedCrop, RandomCrop, WholeCrop
from patchwords.errors import DataError, UsageError
from patchwords.training import feed
from patchwords.training.distributed import World
from patchwords.training.feed import Cached, Streamed, judged, judged_held
from patchwords.training.update import Loaded

CPU = torch.device("cpu")
COUNT, BATCH = 22, 8
GREY = Preprocess(size=(8, 8), mean=(0.5,), deviation=(0.5,))


@pytest.fixture
def source() -> Arrays:
    pixels = np.random.default_rng(1).integers(0, 256, (COUNT, 8, 8, 1), dtype=np.uint8)
    return Arrays(pixels, np.arange(COUNT) % 4, "train")


def quiet(source: Arrays) -> Broken:
    return Broken(0.0, len(source), lambda note: None)


def held(source: Arrays, crop: CropKind | None) -> Held:
    return hold(source, crop, GREY, 1, CPU, Loading(workers=0), quiet(source), lambda done, total: None)


def streamed(source: Arrays, crop: CropKind, part: slice = slice(None), count: int = 0) -> Streamed:
    cut = Cut(source, crop, GREY, 1, seed=4)
    return Streamed(cut, Order(4, COUNT), BATCH, part, Loading(workers=count), quiet(source))


def cached(source: Arrays, crop: CropKind, part: slice = slice(None)) -> Cached:
    cut = Cut(source, crop, GREY, 1, seed=4)
    return Cached(held(source, crop), cut, Order(4, COUNT), BATCH, part, CPU)


def assert_equal(left: list[Loaded], right: list[Loaded]) -> None:
    assert len(left) == len(right)
    for one, other in zip(left, right, strict=True):
        assert torch.equal(one.images, other.images)
        assert torch.equal(one.labels, other.labels)
        assert np.array_equal(one.indices, other.indices)
        assert np.array_equal(one.views, other.views)


CROPS = [PaddedCrop(pixels=2), WholeCrop()]
crops = pytest.mark.parametrize("crop", CROPS, ids=lambda crop: crop.kind)


@crops
def test_a_cache_feeds_what_the_files_feed(source: Arrays, crop: CropKind) -> None:
    assert_equal(list(cached(source, crop).batches(0, 7)), list(streamed(source, crop).batches(0, 7)))


@crops
def test_batches_from_any_step_are_the_tail_of_all(source: Arrays, crop: CropKind) -> None:
    for made in (cached(source, crop), streamed(source, crop), streamed(source, crop, count=2)):
        whole = list(made.batches(0, 6))
        for start in (1, 4, 6):
            assert_equal(list(made.batches(start, 6)), whole[start:])


@pytest.mark.parametrize("world", [2, 3, 4])
@pytest.mark.parametrize("make", [streamed, cached])
def test_processes_share_every_batch(source: Arrays, make: type, world: int) -> None:
    crop = PaddedCrop(pixels=2)
    whole = list(make(source, crop).batches(0, 5))
    parts = [list(make(source, crop, share(BATCH, rank, world)).batches(0, 5)) for rank in range(world)]
    for step, one in enumerate(whole):
        together = [part[step] for part in parts]
        assert torch.equal(torch.cat([each.images for each in together]), one.images)
        assert torch.equal(torch.cat([each.labels for each in together]), one.labels)
        assert np.concatenate([each.indices for each in together]).tolist() == one.indices.tolist()


@pytest.mark.parametrize("world", [1, 2, 3])
@pytest.mark.parametrize("cache", [False, True])
def test_every_picture_is_judged_once_by_one_process(
    source: Arrays, world: int, cache: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed, "EVALUATED", 2)  # so that there are several batches, and a part of one at the end
    kept = held(source, None)
    seen: list[int] = []
    for rank in range(world):
        here = World(rank, world, CPU)
        pictures = judged_held(kept, here) if cache else judged(
            Prepare(source, GREY, 1), here, Loading(workers=0), quiet(source)
        )  # fmt: skip
        for loaded in pictures:
            seen += loaded.indices.tolist()
            assert np.array_equal(loaded.labels.numpy(), source.labels[loaded.indices])
            wanted = source.images[loaded.indices].transpose(0, 3, 1, 2)
            assert np.array_equal(loaded.images.numpy(), wanted)
    assert sorted(seen) == list(range(COUNT))


# Ahead of time


@pytest.mark.parametrize("count", [0, 2])
def test_a_feed_that_is_left_leaves_no_thread_and_no_process(source: Arrays, count: int) -> None:
    before = threading.active_count()
    with closing(streamed(source, WholeCrop(), count=count).batches(0, 1000)) as batches:
        next(batches)
        assert threading.active_count() > before
    assert threading.active_count() == before
    assert multiprocessing.active_children() == []


def test_an_error_in_a_feed_comes_out_of_it(source: Arrays) -> None:
    broken = Arrays(source.images.astype(np.int16), source.labels, "train")  # type: ignore[arg-type]
    with pytest.raises(DataError, match="none of the pictures can be read"):
        list(streamed(broken, WholeCrop()).batches(0, 2))
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize("count", [0, 2])
def test_batches_that_the_device_cuts_are_those_that_come_cut(
    count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loader, "CHUNK", 3)
    files, plain = photos(tmp_path), Preprocess(size=(16, 20))
    monkeypatch.setattr(nvjpeg, "decode", by_pillow)
    found = {}
    for decoder in ("pillow", "nvjpeg"):
        monkeypatch.setattr(feed, "chosen", lambda *_, decoder=decoder: decoder)
        cut = Cut(files, RandomCrop(scale=(0.5, 1.0)), plain, 3, seed=4)
        loading, broken = Loading(workers=count), Broken(0.5, len(files), lambda note: None)
        found[decoder] = list(Streamed(cut, Order(4, len(files)), BATCH, slice(None), loading, broken).batches(0, 4))
        assert list(broken.found) == ["3.jpg"]
    for one, other in zip(found["pillow"], found["nvjpeg"], strict=True):
        assert (one.images.int() - other.images.int()).abs().max() <= 1
        assert torch.equal(one.labels, other.labels)
        assert np.array_equal(one.indices, other.indices)
        assert np.array_equal(one.views, other.views)


def photos(folder: Path) -> Files:
    """Ten JPEG files, one of them torn."""
    names = [f"{number}.jpg" for number in range(10)]
    rows, cols = np.mgrid[0:50, 0:60]
    for number, name in enumerate(names):
        waves = [128 + 90 * np.sin(rows / 9 + shift) * np.cos(cols / 11 - number) for shift in (0, 1, 2)]
        Image.fromarray(np.stack(waves, axis=2).astype(np.uint8)).save(folder / name, quality=92)
    (folder / "3.jpg").write_bytes((folder / "3.jpg").read_bytes()[:-300])
    return Files(folder, Names(names), np.arange(10))


def by_pillow(files: list[Tensor], device: torch.device) -> list[Tensor]:
    images = [Image.open(io.BytesIO(file.numpy().tobytes())) for file in files]
    return [torch.from_numpy(np.array(image)).permute(2, 0, 1) for image in images]


def test_a_decoder_that_is_not_there_is_refused_before_the_first_step(source: Arrays) -> None:
    loading = Loading(workers=0, decoder="nvjpeg")
    with pytest.raises(UsageError, match="nvjpeg"):
        Streamed(Cut(source, WholeCrop(), GREY, 1, 4), Order(4, COUNT), BATCH, slice(None), loading, quiet(source))


@pytest.mark.parametrize("cache", [False, True])
def test_a_process_without_pictures_to_judge_gets_none(source: Arrays, cache: bool) -> None:
    few = Arrays(source.images[:2], source.labels[:2], "val")
    here = World(2, 3, CPU)
    if cache:
        assert list(judged_held(held(few, None), here)) == []
    else:
        assert list(judged(Prepare(few, GREY, 1), here, Loading(workers=0), quiet(few))) == []
