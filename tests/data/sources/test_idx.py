"""MNIST's files, packed or not."""

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest

from patchwords.data.sources import guard
from patchwords.data.sources.door import open_data
from patchwords.errors import DataError

IMAGES = np.arange(20 * 4 * 5, dtype=np.uint32).reshape(20, 4, 5).astype(np.uint8)
LABELS = (np.arange(20) % 3).astype(np.uint8)


def idx(array: np.ndarray) -> bytes:
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes()


def mnist(folder: Path, packed: bool = False, **changes: bytes) -> Path:
    files = {
        "train-images-idx3-ubyte": idx(IMAGES[:15]),
        "train-labels-idx1-ubyte": idx(LABELS[:15]),
        "t10k-images-idx3-ubyte": idx(IMAGES[15:]),
        "t10k-labels-idx1-ubyte": idx(LABELS[15:]),
    }
    for name, content in files.items():
        content = changes.get(name.split("-idx")[0].replace("-", "_"), content)
        if content:
            (folder / (name + ".gz" * packed)).write_bytes(gzip.compress(content) if packed else content)
    return folder


@pytest.mark.parametrize("packed", [False, True])
def test_pictures_and_labels_come_out(tmp_path: Path, packed: bool) -> None:
    data = open_data(mnist(tmp_path, packed))
    assert (data.classes, data.channels) == (("0", "1", "2"), 1)
    assert {split: len(source) for split, source in data.splits.items()} == {"train": 12, "val": 3, "test": 5}
    for source, published in ((data.train, IMAGES[:15]), (data.val, IMAGES[:15]), (data.test, IMAGES[15:])):
        assert source is not None
        for index in range(len(source)):
            number = int(source.name(index).partition("/")[2])
            assert np.array_equal(source.picture(index), published[number][..., None])
    assert data.test is not None
    assert data.test.labels.tolist() == LABELS[15:].tolist()


@pytest.mark.parametrize("word", ["t10k", "test"])
def test_validation_comes_from_train_and_the_test_set_waits(tmp_path: Path, word: str) -> None:
    mnist(tmp_path)
    for kind in ("images-idx3", "labels-idx1"):
        (tmp_path / f"t10k-{kind}-ubyte").rename(tmp_path / f"{word}-{kind}-ubyte")
    data = open_data(tmp_path)
    learned, held, tested = ([source.name(i) for i in range(len(source))] for source in data.splits.values())
    assert sorted(learned + held) == sorted(f"train/{number}" for number in range(15))
    assert np.bincount(data.val.labels).tolist() == [1, 1, 1]
    assert tested == [f"{word}/{number}" for number in range(5)]
    assert data.notes == (
        "3 of 15 pictures are held out for validation (20 % of each class, rounded down, seed 0)",
        "the test pictures decide nothing: they are scored once, at the end",
    )


def test_an_unpacked_file_is_preferred_to_its_packed_twin(tmp_path: Path) -> None:
    mnist(tmp_path, packed=True, train_images=idx(255 - IMAGES[:15]))
    train = open_data(mnist(tmp_path)).train
    assert np.array_equal(train.picture(0), IMAGES[int(train.name(0).removeprefix("train/"))][..., None])


def test_training_files_alone_are_split(tmp_path: Path) -> None:
    data = open_data(mnist(tmp_path, t10k_images=b"", t10k_labels=b""))
    assert [len(source) for source in data.splits.values()] == [12, 3]
    assert data.test is None
    assert not any("test pictures" in note for note in data.notes)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"train_labels": b""}, "has no train-labels file"),
        ({"t10k_images": b""}, "has no t10k-images file"),
        ({"train_images": idx(LABELS)}, r"begins with \[0, 0, 8, 1\], not with \[0, 0, 8, 3\]"),
        ({"train_images": b"GIF89a"}, r"begins with \[71, 73, 70, 56\]"),
        ({"train_images": idx(IMAGES[:15])[:-1]}, "announces 300 bytes but holds 299"),
        ({"train_images": idx(IMAGES[:15]) + b"x"}, "announces 300 bytes but holds 301"),
        ({"train_images": struct.pack(">HBB3I", 0, 8, 3, *[2**32 - 1] * 3)}, "announces 79228162458924105385300197375"),
        ({"train_images": idx(IMAGES[:14])}, "train has 14 pictures but 15 labels"),
        ({"train_images": b"\0\0\x08\x03\0"}, "is damaged"),
        ({"train_labels": idx(LABELS[:15] * 0)}, r"test has classes that train lacks \(1, 2\)"),
    ],
)
def test_wrong_files_are_refused(tmp_path: Path, packed: bool, changes: dict[str, bytes], sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        open_data(mnist(tmp_path, packed, **changes))


def test_a_packed_file_that_never_ends_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "FREE", 1 << 20)
    content = struct.pack(">HBB3I", 0, 8, 3, 10, 1000, 1000) + bytes(10_000_000)
    with pytest.raises(DataError, match="unpacks to more than 100 times its size"):
        open_data(mnist(tmp_path, packed=True, train_images=content))
