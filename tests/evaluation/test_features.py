"""Features are what the classifier sees, computed once; no change goes unnoticed, and a bad cache stops nobody."""

import copy
import errno
import io
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import nn

from patchwords.data.broken import Broken
from patchwords.data.loader import Loading
from patchwords.data.preprocess import IMAGENET, Preprocess
from patchwords.data.sources.arrays import Arrays
from patchwords.data.sources.files import Files
from patchwords.data.sources.names import Names
from patchwords.data.sources.source import Source
from patchwords.data.transforms import normalise, prepare
from patchwords.errors import DataError, ModelError
from patchwords.evaluation import features as module
from patchwords.evaluation.answers import Compute
from patchwords.evaluation.features import Features, features, protocol
from patchwords.models.names import Config
from patchwords.weights import files
from patchwords.weights.card import Card
from patchwords.weights.subject import Subject

COUNT = 11
SMALL = Preprocess(size=(32, 24))
HERE = Compute(batch=4, loading=Loading(workers=0))


def picture(number: int) -> bytes:
    """A picture like no other; a change of one pixel changes one byte."""
    pixels = np.random.default_rng(number).integers(0, 256, (40 + number, 50, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "BMP")
    return file.getvalue()


NAMES = [f"{number:02}.bmp" for number in range(COUNT)]
LABELS = np.arange(COUNT) % 3


def files_of(folder: Path, names: list[str] = NAMES, labels: Any = LABELS) -> Files:
    return Files(folder, Names(names), np.asarray(labels))


@pytest.fixture
def photos(tmp_path: Path) -> Files:
    folder = tmp_path / "photos"
    folder.mkdir()
    for number, name in enumerate(NAMES):
        (folder / name).write_bytes(picture(number))
    return files_of(folder)


@pytest.fixture
def subject(small_configs: dict[str, Config], randomised: Callable[[nn.Module], nn.Module]) -> Subject:
    model = small_configs["plain"].build().eval()
    randomised(model)
    return Subject("small", model, Card(model=model.config, preprocess=SMALL))


class Bench:
    """Asks for features with one cache, and counts how often the model was needed."""

    def __init__(self, subject: Subject, cache: Path, monkeypatch: pytest.MonkeyPatch):
        self.subject, self.cache = subject, cache
        self.notes: list[str] = []
        self.read: list[tuple[int, int]] = []
        self.seen: list[tuple[int, int]] = []
        self.computed = 0
        answers = module.answers

        def counted(*given: Any) -> Any:
            self.computed += 1
            return answers(*given)

        monkeypatch.setattr(module, "answers", counted)

    def __call__(self, source: Source, **changes: Any) -> Features:
        self.broken = Broken(changes.pop("allowed", 0.5), len(source), self.notes.append)
        self.read.clear()
        self.seen.clear()
        given = {"subject": self.subject, "preprocess": SMALL, "compute": HERE, "cache": self.cache} | changes
        return features(
            source=source,
            broken=self.broken,
            reading=lambda done, total: self.read.append((done, total)),
            progress=lambda done, total: self.seen.append((done, total)),
            **given,
        )

    @property
    def files(self) -> list[Path]:
        return sorted((self.cache / "features").glob("*"))


@pytest.fixture
def bench(subject: Subject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(subject, tmp_path / "cache", monkeypatch)


def assert_equal(left: Features, right: Features) -> None:
    for name in ("vectors", "labels", "indices"):
        one, other = getattr(left, name), getattr(right, name)
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


def test_features_are_what_the_classifier_sees(bench: Bench, photos: Files) -> None:
    found = bench(photos)
    images = torch.from_numpy(np.stack([prepare(photos.picture(i), SMALL, 3) for i in range(COUNT)]))
    model = bench.subject.model
    with torch.inference_mode():
        inputs = normalise(images, SMALL)
        vectors = model.represent(inputs)
        assert torch.allclose(model.head(vectors), model(inputs), atol=1e-6)
    assert found.vectors.dtype == np.float32
    np.testing.assert_allclose(found.vectors, vectors.numpy(), atol=1e-5)
    np.testing.assert_array_equal(found.labels, photos.labels)
    np.testing.assert_array_equal(found.indices, np.arange(COUNT))


@pytest.mark.parametrize("kind", ["mlp head", "no classes", "mean", "resnet pre"])
def test_any_model_has_features(
    bench: Bench, photos: Files, small_configs: dict[str, Config], randomised: Any, kind: str
) -> None:
    model = randomised(small_configs[kind].build()).eval()
    found = bench(photos, subject=Subject(kind, model, Card(model=model.config, preprocess=SMALL)))
    assert found.vectors.shape[0] == COUNT
    assert found.vectors.std() > 0


def test_they_are_computed_once(bench: Bench, photos: Files) -> None:
    first, second = bench(photos), bench(photos)
    assert bench.computed == 1
    assert len(bench.files) == 1
    assert bench.notes == []
    assert_equal(first, second)


def test_reading_and_seeing_are_two_works_that_count_every_picture_once(
    bench: Bench, photos: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "EVERY", 5)
    bench(photos)
    assert bench.read == [(0, 11), (5, 11), (10, 11), (11, 11)]
    assert bench.seen == [(4, 11), (8, 11), (11, 11)]
    bench(photos)
    assert bench.read == [(0, 11), (5, 11), (10, 11), (11, 11)]
    assert bench.seen == [(11, 11)]


def test_a_data_set_that_was_moved_is_the_same(bench: Bench, photos: Files, tmp_path: Path) -> None:
    bench(photos)
    bench(files_of((tmp_path / "photos").rename(tmp_path / "elsewhere")))
    assert bench.computed == 1


def one_pixel(folder: Path) -> Files:
    """The name, the size and the times stay: only the contents tell."""
    path = folder / NAMES[3]
    times, content = path.stat(), bytearray(path.read_bytes())
    content[-100] ^= 128
    path.write_bytes(content)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    return files_of(folder)


def another_name(folder: Path) -> Files:
    (folder / NAMES[3]).rename(folder / "other.bmp")
    return files_of(folder, [*NAMES[:3], "other.bmp", *NAMES[4:]])


def other_labels(folder: Path) -> Files:
    return files_of(folder, labels=(LABELS + 1) % 3)


def one_fewer(folder: Path) -> Files:
    return files_of(folder, NAMES[:-1], LABELS[:-1])


def another_order(folder: Path) -> Files:
    return files_of(folder, NAMES[::-1], LABELS[::-1])


@pytest.mark.parametrize("change", [one_pixel, another_name, other_labels, one_fewer, another_order])
def test_other_data_is_never_taken_for_the_same(bench: Bench, photos: Files, change: Callable[[Path], Files]) -> None:
    bench(photos)
    other = change(Path(photos.folder))
    found = bench(other)
    assert bench.computed == 2
    np.testing.assert_array_equal(found.labels, other.labels)
    images = np.stack([prepare(other.picture(i), SMALL, 3) for i in range(len(other))])
    with torch.inference_mode():
        vectors = bench.subject.model.represent(normalise(torch.from_numpy(images), SMALL))
    np.testing.assert_allclose(found.vectors, vectors.numpy(), atol=1e-5)
    assert_equal(bench(other), found)
    assert bench.computed == 2


@pytest.mark.parametrize(
    "change",
    [
        {"preprocess": protocol(SMALL)},
        {"preprocess": replace(SMALL, mean=(0.4, 0.5, 0.5))},
        {"compute": replace(HERE, precision="bf16")},
    ],
    ids=["fit", "mean", "precision"],
)
def test_another_way_of_asking_is_never_taken_for_the_same(bench: Bench, photos: Files, change: Any) -> None:
    first = bench(photos)
    second = bench(photos, **change)
    assert bench.computed == 2
    assert np.abs(first.vectors - second.vectors).max() > 1e-3
    assert_equal(bench(photos, **change), second)
    assert_equal(bench(photos), first)
    assert bench.computed == 2


def test_another_version_asks_anew(bench: Bench, photos: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    bench(photos)
    monkeypatch.setattr(module, "__version__", "0.0.0")
    bench(photos)
    assert bench.computed == 2


def test_how_the_work_is_shared_out_changes_nothing_and_asks_nothing_anew(bench: Bench, photos: Files) -> None:
    first = bench(photos)
    assert_equal(bench(photos, compute=Compute(batch=3, loading=Loading(workers=1))), first)
    assert bench.computed == 1


def test_one_other_weight_is_another_model(bench: Bench, photos: Files) -> None:
    bench(photos)
    model = copy.deepcopy(bench.subject.model)
    with torch.no_grad():
        next(model.parameters()).view(-1)[0] += 1e-3
    bench(photos, subject=replace(bench.subject, model=model))
    assert bench.computed == 2


def test_pixels_are_known_by_their_contents_too(bench: Bench) -> None:
    images = np.random.default_rng(0).integers(0, 256, (COUNT, 32, 24, 3), dtype=np.uint8)
    first = bench(Arrays(images, LABELS, "train"))
    assert_equal(bench(Arrays(images.copy(), LABELS, "train")), first)
    strided = np.ascontiguousarray(images.transpose(0, 1, 3, 2)).transpose(0, 1, 3, 2)
    assert_equal(bench(Arrays(strided, LABELS, "train")), first)
    assert bench.computed == 1
    images[5, 0, 0, 0] ^= 1
    bench(Arrays(images, LABELS, "train"))
    bench(Arrays(images.reshape(COUNT, 32, 72, 1), LABELS, "train"))  # the same bytes in another shape
    assert bench.computed == 3


def broken_file(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def flipped_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-5] ^= 4
    path.write_bytes(content)


def empty(path: Path) -> None:
    path.write_bytes(b"")


def other_vectors(path: Path) -> None:
    """A whole file, by the library's own hand, that is not what was hashed."""
    with safe_open(path, framework="pt") as file:
        metadata = file.metadata()
    tensors = load_file(path)
    save_file(tensors | {"vectors": tensors["vectors"] + 1}, path, metadata=metadata)


def no_metadata(path: Path) -> None:
    save_file(load_file(path), path)


@pytest.mark.parametrize("harm", [broken_file, flipped_bit, empty, other_vectors, no_metadata])
def test_a_damaged_file_is_noted_and_computed_again(bench: Bench, photos: Files, harm: Callable[[Path], None]) -> None:
    first = bench(photos)
    harm(bench.files[0])
    assert_equal(bench(photos), first)
    assert bench.computed == 2
    assert len(bench.notes) == 1
    assert "cannot be used, and are computed again" in bench.notes[0]
    assert_equal(bench(photos), first)  # whole again
    assert bench.computed == 2
    assert len(bench.notes) == 1


def test_the_file_of_other_features_is_not_believed_for_its_name(bench: Bench, photos: Files) -> None:
    first = bench(photos)
    bench(photos, preprocess=protocol(SMALL))
    assert_equal(bench(photos), first)
    (mine,) = [path for path in bench.files if np.array_equal(load_file(path)["vectors"].numpy(), first.vectors)]
    (other,) = set(bench.files) - {mine}
    mine.write_bytes(other.read_bytes())
    assert_equal(bench(photos), first)
    assert "holds other features than its name says" in bench.notes[0]


def test_a_half_written_file_is_never_seen(bench: Bench, photos: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, *_: object) -> None:
        path.write_bytes(b"half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setitem(files.WRITERS, ".safetensors", full)
        first = bench(photos)
    assert bench.files == []
    (note,) = bench.notes
    assert "not kept for the next time" in note
    assert "No space left on device" in note
    assert_equal(bench(photos), first)
    assert len(bench.files) == 1


def test_a_cache_that_cannot_be_written_is_noted(bench: Bench, photos: Files, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    found = bench(photos, cache=tmp_path / "file")
    assert found.vectors.shape == (COUNT, 32)
    (note,) = bench.notes
    assert "not kept for the next time" in note


def test_something_else_in_the_place_of_the_file_is_noted(bench: Bench, photos: Files) -> None:
    first = bench(photos)
    path = bench.files[0]
    path.unlink()
    (path / "inside").mkdir(parents=True)
    assert_equal(bench(photos), first)
    assert "not kept for the next time" in bench.notes[0]


def test_what_was_not_asked_for_the_longest_makes_room_for_what_is_new(
    bench: Bench, photos: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    def centred(mean: float) -> Preprocess:
        return replace(SMALL, mean=(mean,) * 3)

    for age, mean in enumerate((0.1, 0.2)):
        bench(photos, preprocess=centred(mean))
        newest = max(bench.files, key=lambda path: path.stat().st_mtime_ns)
        os.utime(newest, (age, age))
    monkeypatch.setattr(module, "MOST", sum(path.stat().st_size for path in bench.files))
    bench(photos, preprocess=centred(0.1))  # which makes the other one the oldest
    bench(photos, preprocess=centred(0.3))
    assert "what was not asked for the longest was removed (1 file)" in bench.notes[-1]
    computed = bench.computed
    bench(photos, preprocess=centred(0.1))
    assert bench.computed == computed
    bench(photos, preprocess=centred(0.2))
    assert bench.computed == computed + 1


def test_the_cache_is_where_all_that_is_kept_lies(
    bench: Bench, photos: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATCHWORDS_CACHE", str(tmp_path / "own"))
    bench(photos, cache=None)
    (path,) = (tmp_path / "own" / "features").iterdir()
    assert len(path.stem) == 64
    assert path.suffix == ".safetensors"


def test_broken_pictures_are_left_out_and_named_from_the_cache_too(bench: Bench, photos: Files) -> None:
    Path(photos.path(3)).write_bytes(b"no picture")
    Path(photos.path(7)).write_bytes(picture(7)[:200])
    found = bench(photos)
    assert found.indices.tolist() == [0, 1, 2, 4, 5, 6, 8, 9, 10]
    np.testing.assert_array_equal(found.labels, LABELS[found.indices])
    first, notes = dict(bench.broken.found), list(bench.notes)
    assert list(first) == [NAMES[3], NAMES[7]]
    assert_equal(bench(photos), found)
    assert bench.computed == 1
    assert bench.broken.found == first
    assert bench.notes == notes * 2


def test_too_many_broken_pictures_are_an_error_from_the_cache_too(bench: Bench, photos: Files) -> None:
    Path(photos.path(3)).write_bytes(b"no picture")
    bench(photos)
    for _ in range(2):
        with pytest.raises(DataError, match="1 of 11 pictures cannot be read"):
            bench(photos, allowed=0.0)


def test_a_file_out_of_reach_is_left_out_and_nothing_is_kept(bench: Bench, photos: Files) -> None:
    path = Path(photos.path(3))
    path.rename(path.with_suffix(".away"))
    assert len(bench(photos).indices) == COUNT - 1
    assert bench.files == []
    assert "some pictures are out of reach" in bench.notes[-1]
    path.with_suffix(".away").rename(path)
    assert len(bench(photos).indices) == COUNT


class Flickering(Files):
    """One file that cannot be read the second time, as on a network drive."""

    reads = 0

    def picture(self, index: int) -> bytes:
        self.reads += index == 3
        if index == 3 and self.reads == 2:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return super().picture(index)


def test_a_picture_that_was_out_of_reach_for_a_moment_is_not_missing_for_ever(bench: Bench, photos: Files) -> None:
    flickering = Flickering(Path(photos.folder), photos.names, photos.labels)
    assert len(bench(flickering).indices) == COUNT - 1
    assert bench.files == []
    assert len(bench(flickering).indices) == COUNT


def test_vectors_that_are_not_finite_are_refused_and_not_kept(bench: Bench, photos: Files) -> None:
    with torch.no_grad():
        next(bench.subject.model.parameters()).fill_(float("nan"))
    with pytest.raises(ModelError, match=r"of 11 pictures are not finite, the first of them that of 00\.bmp"):
        bench(photos)
    assert bench.files == []


def test_the_same_features_are_the_same_file(bench: Bench, photos: Files) -> None:
    bench(photos)
    content = bench.files[0].read_bytes()
    bench.files[0].unlink()
    bench(photos)
    assert bench.files[0].read_bytes() == content


@pytest.mark.parametrize(("height", "width"), [(480, 640), (640, 480), (375, 500), (100, 80), (1201, 1600), (256, 256)])
def test_the_protocol_is_to_squash_and_then_to_take_the_middle(height: int, width: int) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)
    found = prepare(pixels, protocol(Preprocess()), 3).transpose(1, 2, 0)
    squashed = Image.fromarray(pixels).resize((256, 256), Image.Resampling.BILINEAR)
    np.testing.assert_array_equal(found, np.asarray(squashed.crop((16, 16, 240, 240))))


def test_the_protocol_decodes_a_jpeg_in_full() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (60, 80, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).resize((1600, 1200)).save(file, "JPEG")
    found = prepare(file.getvalue(), protocol(Preprocess()), 3).transpose(1, 2, 0)
    squashed = Image.open(io.BytesIO(file.getvalue())).resize((256, 256), Image.Resampling.BILINEAR)
    np.testing.assert_array_equal(found, np.asarray(squashed.crop((16, 16, 240, 240))))


def test_the_protocol_keeps_the_size_and_the_colours_of_the_card() -> None:
    card = replace(IMAGENET, size=(384, 384), interpolation="bicubic", orientation="stored")
    found = protocol(card)
    assert (found.fit, found.crop, found.interpolation) == ("centre", 0.875, "bilinear")
    assert replace(found, fit=card.fit, interpolation=card.interpolation) == card
