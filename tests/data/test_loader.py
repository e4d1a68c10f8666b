"""From files to pictures of one size: the same bytes for any number of workers, and broken files stop nobody."""

import io
import itertools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from patchwords.data import loader, workers
from patchwords.data.arena import Arena
from patchwords.data.broken import Broken
from patchwords.data.loader import Cut, Loading, Pictures, Prepare, joined, scored, shown
from patchwords.data.order import Order, share
from patchwords.data.preprocess import Preprocess
from patchwords.data.sources.arrays import Arrays
from patchwords.data.sources.files import Files
from patchwords.data.sources.names import Names
from patchwords.data.sources.source import Source, Subset
from patchwords.data.transforms import CropKind, PaddedCrop, RandomCrop, WholeCrop, boxes, cut, prepare
from patchwords.errors import DataError, UsageError

SMALL = Preprocess(size=(12, 16))
COUNT = 24
ORIENTATION = 0x0112  # the camera's note


def jpeg(number: int, turn: int = 1) -> bytes:
    """A picture like no other, of a size of its own."""
    rows, cols = np.mgrid[0 : 30 + number % 5, 0 : 40 + 3 * (number % 7)]
    waves = [128 + 90 * np.sin(rows / (4 + number % 3) + shift) * np.cos(cols / 6 + number) for shift in (0, 1, 2)]
    tags = Image.Exif()
    tags[ORIENTATION] = turn
    file = io.BytesIO()
    Image.fromarray(np.stack(waves, axis=2).astype(np.uint8)).save(file, "JPEG", quality=90, exif=tags)
    return file.getvalue()


def written(folder: Path, contents: list[bytes]) -> Files:
    """Files of these contents; their labels are their numbers, so that a label tells whose picture it is."""
    names = [f"{number:02}.jpg" for number in range(len(contents))]
    for name, content in zip(names, contents, strict=True):
        (folder / name).write_bytes(content)
    return Files(folder, Names(names), np.arange(len(contents)))


@pytest.fixture
def photos(tmp_path: Path) -> Files:
    return written(tmp_path, [jpeg(number) for number in range(COUNT)])


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loader, "CHUNK", 4)


def tolerant(source: Source, notes: list[str] | None = None, allowed: float = 1.0) -> Broken:
    return Broken(allowed, len(source), (notes if notes is not None else []).append)


def batches(
    source: Source,
    *,
    steps: range = range(5),
    batch: int = 10,
    part: slice = slice(None),
    count: int = 0,
    seed: int = 1,
    crop: CropKind = RandomCrop(),  # noqa: B008
    broken: Broken | None = None,
) -> list[Pictures]:
    work = Cut(source, crop, SMALL, 3, seed)
    order = Order(seed, len(source))
    return list(shown(work, order, batch, part, steps, Loading(workers=count), broken or tolerant(source)))


def assert_equal(left: list[Pictures], right: list[Pictures]) -> None:
    assert len(left) == len(right)
    for one, other in zip(left, right, strict=True):
        for name in ("images", "labels", "indices", "views"):
            assert np.array_equal(getattr(one, name), getattr(other, name)), name
        assert one.damages == other.damages


# Training


def test_batches_are_uint8_of_the_models_size_with_their_labels_and_addresses(photos: Files) -> None:
    for step, pictures in enumerate(batches(photos)):
        assert pictures.images.shape == (10, 3, 12, 16)
        assert pictures.images.dtype == np.uint8
        indices, views = Order(1, COUNT).take(10 * step, 10 * step + 10)
        assert np.array_equal(pictures.indices, indices)
        assert np.array_equal(pictures.views, views)
        assert np.array_equal(pictures.labels, indices)
        assert pictures.damages == []


def test_every_picture_is_cut_at_its_own_address(photos: Files) -> None:
    crop = RandomCrop()
    for pictures in batches(photos, crop=crop):
        for image, index, view in zip(pictures.images, pictures.indices, pictures.views, strict=True):
            raw = photos.picture(int(index))
            height, width = Image.open(io.BytesIO(raw)).size[::-1]
            (box,) = boxes(crop, np.array([[height, width]]), SMALL, seed=1, views=int(view), indices=int(index))
            assert np.array_equal(image, cut(raw, box, SMALL.size, "bilinear", 3))


@pytest.mark.parametrize("crop", [RandomCrop(), PaddedCrop(), WholeCrop()], ids=lambda crop: crop.kind)
def test_any_number_of_workers_gives_the_same_bytes(photos: Files, crop: CropKind) -> None:
    alone = batches(photos, crop=crop)
    for count in (1, 4):
        assert_equal(batches(photos, crop=crop, count=count), alone)


@pytest.mark.parametrize("chunk", [1, 3, 64])
def test_how_many_pictures_a_process_makes_at_a_time_does_not_matter(
    photos: Files, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = batches(photos)
    monkeypatch.setattr(loader, "CHUNK", chunk)
    assert_equal(batches(photos), alone)


@pytest.mark.parametrize("count", [0, 2])
def test_a_start_in_mid_epoch_is_the_tail_of_the_whole(photos: Files, count: int) -> None:
    whole = batches(photos, steps=range(6))
    for start in range(1, 6):
        assert_equal(batches(photos, steps=range(start, 6), count=count), whole[start:])


@pytest.mark.parametrize("world", [2, 3, 4])
def test_the_parts_of_all_processes_are_the_batch(photos: Files, world: int) -> None:
    whole = batches(photos)
    parts = [batches(photos, part=share(10, rank, world)) for rank in range(world)]
    assert_equal([joined(together) for together in zip(*parts, strict=True)], whole)


def test_another_seed_cuts_and_orders_otherwise(photos: Files) -> None:
    first, second = batches(photos)[0], batches(photos, seed=2)[0]
    assert not np.array_equal(first.indices, second.indices)
    assert not np.array_equal(first.images, second.images)


def test_a_worker_that_is_killed_changes_nothing(photos: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    alone, notes = batches(photos), []
    process = workers._Member.__init__
    killed = []

    def weak(self: workers._Member, work: Callable, arena: Arena) -> None:
        process(self, work, arena)
        if len(killed) < 2:
            killed.append(self.process.kill())

    monkeypatch.setattr(workers._Member, "__init__", weak)
    assert_equal(batches(photos, count=2, broken=tolerant(photos, notes)), alone)
    assert len(notes) == 2
    assert all("lost and replaced" in note for note in notes)


# The camera's note


@pytest.mark.parametrize("orientation", ["upright", "stored"])
def test_a_box_is_of_the_picture_as_it_is_seen(tmp_path: Path, orientation: str) -> None:
    source = written(tmp_path, [jpeg(number, turn=6) for number in range(6)])
    preprocess = Preprocess(size=(12, 16), orientation=orientation)  # type: ignore[arg-type]
    order = Order(0, 6)
    (pictures,) = shown(Cut(source, WholeCrop(), preprocess, 3, 0), order, 6, slice(None), [0], Loading(workers=0),
                        tolerant(source))  # fmt: skip
    for image, index in zip(pictures.images, pictures.indices, strict=True):
        seen = prepare(source.picture(int(index)), preprocess, 3)
        assert np.abs(image.astype(int) - seen).max() <= 3  # a reduced JPEG is not the same to the bit


# Broken pictures

TEXT = b"this is no picture at all, whatever its name says"
EMPTY = b""


def damaged(folder: Path, where: dict[int, bytes]) -> Files:
    return written(folder, [where.get(number, jpeg(number)) for number in range(COUNT)])


@pytest.mark.parametrize(
    ("content", "reason"),
    [(TEXT, "none of JPEG, PNG"), (EMPTY, "empty"), (jpeg(7)[:-300], "cannot be decoded"), (jpeg(7)[:20], "none of")],
    ids=["text", "empty", "truncated", "header alone"],
)
@pytest.mark.parametrize("count", [0, 2])
def test_a_broken_picture_is_named_and_replaced_by_the_next(
    content: bytes, reason: str, count: int, tmp_path: Path
) -> None:
    source, notes = damaged(tmp_path, {7: content}), []
    broken = tolerant(source, notes)
    found = batches(source, count=count, broken=broken)
    labels = np.concatenate([pictures.labels for pictures in found])
    indices = np.concatenate([pictures.indices for pictures in found])
    assert np.array_equal(labels, np.where(indices == 7, 8, indices))
    assert list(broken.found) == ["07.jpg"]
    assert reason in broken.found["07.jpg"]
    (note,) = notes  # once, however often it comes
    assert "07.jpg cannot be read" in note


def test_replacements_are_the_same_for_any_workers_and_start(tmp_path: Path) -> None:
    source = damaged(tmp_path, {3: TEXT, 4: jpeg(4)[:-300], 5: EMPTY, COUNT - 1: jpeg(1)[:-300]})
    alone = batches(source)
    assert_equal(batches(source, count=3), alone)
    assert_equal(batches(source, steps=range(3, 5)), alone[3:])


def test_the_others_of_a_batch_are_what_they_were(tmp_path: Path) -> None:
    (tmp_path / "whole").mkdir()
    whole = batches(written(tmp_path / "whole", [jpeg(number) for number in range(COUNT)]))
    for one, other in zip(whole, batches(damaged(tmp_path, {7: TEXT, 9: jpeg(9)[:-300]})), strict=True):
        kept = ~np.isin(one.indices, [7, 9])
        assert np.array_equal(one.images[kept], other.images[kept])


def test_a_replacement_comes_around_the_end_and_past_other_broken_ones(tmp_path: Path) -> None:
    cases = {COUNT - 2: jpeg(1)[:-300], COUNT - 1: jpeg(2)[:-300], 0: TEXT}
    source = damaged(tmp_path, cases)
    work = Cut(source, RandomCrop(), SMALL, 3, 0)
    indices = np.array([COUNT - 2, COUNT - 1, 0, 1])
    pictures = work((indices, np.zeros(4, dtype=np.int64)))
    assert pictures.labels.tolist() == [1, 1, 1, 1]
    assert {damage.name for damage in pictures.damages} == {"22.jpg", "23.jpg", "00.jpg"}


def test_many_views_of_a_few_broken_pictures_still_find_the_whole_ones(tmp_path: Path) -> None:
    source = written(tmp_path, [jpeg(0)[:-300], jpeg(1)[:-300], jpeg(2)[:-300], jpeg(3)])
    work = Cut(source, RandomCrop(), SMALL, 3, 0)
    pictures = work((np.tile(np.arange(4), 8), np.repeat(np.arange(8), 4)))
    assert set(pictures.labels.tolist()) == {3}


@pytest.mark.parametrize("content", [TEXT, jpeg(1)[:-300]], ids=["header", "pixels"])
def test_where_none_can_be_read_there_is_an_end(content: bytes, tmp_path: Path) -> None:
    source = written(tmp_path, [content] * 3)
    with pytest.raises(DataError, match="none of the pictures can be read"):
        batches(source, batch=2)


def test_a_file_that_vanished_is_a_broken_picture(photos: Files) -> None:
    (Path(photos.folder) / "00.jpg").unlink()
    broken = tolerant(photos)
    assert len(batches(photos, count=-1, broken=broken)) == 5  # the automatic number, too, looks at the first
    assert list(broken.found) == ["00.jpg"]
    assert "No such file" in broken.found["00.jpg"]


@pytest.mark.parametrize("count", [0, 2])
def test_more_than_the_allowed_share_is_an_error_that_names_some(count: int, tmp_path: Path) -> None:
    source = damaged(tmp_path, dict.fromkeys(range(0, 12, 2), TEXT))
    with pytest.raises(
        DataError, match=r"of 24 pictures cannot be read, more than the allowed share of 0\.1"
    ) as caught:
        batches(source, count=count, broken=tolerant(source, allowed=0.1))
    assert "data.broken" in str(caught.value)
    assert ".jpg (it is none of" in str(caught.value)


def test_the_allowed_share_itself_is_allowed(tmp_path: Path) -> None:
    source = damaged(tmp_path, {4: TEXT, 9: TEXT})
    assert len(batches(source, broken=tolerant(source, allowed=2 / 24))) == 5
    with pytest.raises(DataError, match="2 of 24"):
        batches(source, broken=tolerant(source, allowed=1.9 / 24))


# Evaluation


def evaluated(source: Source, indices: np.ndarray, count: int = 0, broken: Broken | None = None) -> list[Pictures]:
    work = Prepare(source, SMALL, 3)
    return list(scored(work, indices, 7, Loading(workers=count), broken or tolerant(source)))


@pytest.mark.parametrize("count", [0, 1, 4])
def test_evaluation_sees_every_picture_once_as_preprocess_says(photos: Files, count: int) -> None:
    found = evaluated(photos, np.arange(COUNT), count)
    assert [len(pictures.labels) for pictures in found] == [7, 7, 7, 3]
    whole = joined(found)
    assert whole.indices.tolist() == whole.labels.tolist() == list(range(COUNT))
    for index, image in enumerate(whole.images):
        assert np.array_equal(image, prepare(photos.picture(index), SMALL, 3))


@pytest.mark.parametrize("count", [0, 2])
def test_evaluation_leaves_out_what_is_broken_and_nothing_else(count: int, tmp_path: Path) -> None:
    source = damaged(tmp_path, dict.fromkeys(range(7, 14), TEXT) | {20: jpeg(2)[:-300], 21: EMPTY})
    broken = tolerant(source)
    found = evaluated(source, np.arange(COUNT), count, broken)
    assert len(found[1].labels) == 0  # a whole batch of them
    assert found[1].images.shape == (0, 3, 12, 16)
    kept = [number for number in range(COUNT) if number not in (*range(7, 14), 20, 21)]
    assert joined(found).indices.tolist() == kept
    assert len(broken.found) == 9


def test_evaluation_counts_broken_pictures_too(tmp_path: Path) -> None:
    source = damaged(tmp_path, {2: TEXT})
    with pytest.raises(DataError, match="1 of 24"):
        evaluated(source, np.arange(COUNT), broken=tolerant(source, allowed=0.001))


@pytest.mark.parametrize("world", [1, 2, 3])
def test_evaluation_sees_every_picture_once_on_any_number_of_processes(photos: Files, world: int) -> None:
    parts = [joined(evaluated(photos, np.arange(rank, COUNT, world))) for rank in range(world)]
    assert sorted(itertools.chain(*(part.indices.tolist() for part in parts))) == list(range(COUNT))


# Who decodes


def test_pixels_in_memory_need_no_processes_and_files_as_many_as_there_are_cores(
    photos: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "automatic", lambda: 5)
    pixels = Arrays(np.zeros((3, 4, 4, 1), dtype=np.uint8), np.zeros(3, dtype=np.int64), "train")
    assert Loading().processes(photos) == 5
    assert Loading().processes(Subset(photos, [3, 4])) == 5
    assert Loading().processes(pixels) == 0
    assert Loading(workers=3).processes(pixels) == 3
    assert Loading(workers=0).processes(photos) == 0


@pytest.mark.parametrize(("given", "word"), [({"workers": -2}, "workers -2"), ({"timeout": 0.0}, "timeout 0")])
def test_settings_without_a_meaning_are_refused(given: dict, word: str) -> None:
    with pytest.raises(UsageError, match=word):
        Loading(**given)


def test_arrays_of_one_channel_are_read_as_files_are() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (9, 8, 8, 1), dtype=np.uint8)
    source = Arrays(pixels, np.arange(9), "train")
    work = Cut(source, WholeCrop(), Preprocess(size=(8, 8), mean=(0.5,), deviation=(0.5,)), 1, 0)
    (found,) = shown(work, Order(0, 9), 9, slice(None), [0], Loading(), tolerant(source))
    assert np.array_equal(found.images, pixels[found.indices].transpose(0, 3, 1, 2))
