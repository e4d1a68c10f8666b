"""Arrays in .npz files: the names they may have, and what is refused."""

import contextlib
import io
import pickle
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from patchwords.data.sources import guard
from patchwords.data.sources.door import open_data
from patchwords.errors import DataError

IMAGES = np.arange(20 * 6 * 5 * 3, dtype=np.uint32).reshape(20, 6, 5, 3).astype(np.uint8)
LABELS = np.arange(20) % 2


def save(folder: Path, **arrays: Any) -> Path:
    np.savez(folder / "set.npz", **arrays)
    return folder / "set.npz"


def test_images_and_labels_are_enough(tmp_path: Path) -> None:
    data = open_data(save(tmp_path, images=IMAGES, labels=LABELS))
    assert (data.name, data.classes, data.channels) == ("set", ("0", "1"), 3)
    assert [len(source) for source in data.splits.values()] == [16, 4]
    pictures = [data.train.picture(index) for index in range(16)]
    assert all(any(np.array_equal(picture, image) for image in IMAGES) for picture in pictures)
    assert pictures[0].dtype == np.uint8
    assert data.train.size(0) == 90
    assert data.train.name(0) == "images/0"


@pytest.mark.parametrize(
    "keys",
    [
        ("images", "labels", "val_images", "val_labels", "test_images", "test_labels"),
        ("train_images", "train_labels", "val_images", "val_labels", "test_images", "test_labels"),
        ("x_train", "y_train", "x_val", "y_val", "x_test", "y_test"),
    ],
)
def test_parts_have_the_names_that_people_give_them(tmp_path: Path, keys: tuple[str, ...]) -> None:
    values = (IMAGES, LABELS[:, None], IMAGES[:4], LABELS[:4, None], IMAGES[:6], LABELS[:6, None])
    data = open_data(save(tmp_path, **dict(zip(keys, values, strict=True))))
    assert [len(source) for source in data.splits.values()] == [20, 4, 6]
    assert any("brings its own validation pictures" in note for note in data.notes)


def test_keras_keys_keep_the_test_for_the_test(tmp_path: Path) -> None:
    data = open_data(save(tmp_path, x_train=IMAGES, y_train=LABELS, x_test=IMAGES[:6], y_test=LABELS[:6]))
    assert {split: len(source) for split, source in data.splits.items()} == {"train": 16, "val": 4, "test": 6}
    assert all(np.array_equal(data.test.picture(index), IMAGES[index]) for index in range(6))
    assert not any("brings its own" in note for note in data.notes)


@pytest.mark.parametrize(("shape", "channels"), [((20, 6, 5), 1), ((20, 6, 5, 1), 1), ((20, 6, 5, 7), 7)])
def test_any_number_of_channels_is_taken(tmp_path: Path, shape: tuple[int, ...], channels: int) -> None:
    data = open_data(save(tmp_path, images=np.zeros(shape, np.uint8), labels=LABELS))
    assert data.channels == channels
    assert data.train.picture(0).shape == (6, 5, channels)


def test_classes_may_have_names(tmp_path: Path) -> None:
    data = open_data(save(tmp_path, images=IMAGES, labels=LABELS, classes=np.array(["no", "yes"])))
    assert data.classes == ("no", "yes")


@pytest.mark.parametrize(
    ("arrays", "sentence"),
    [
        ({"x": IMAGES}, "has x but no images and labels"),
        ({"images": IMAGES}, "has images but not its other half: add labels"),
        ({"y_train": LABELS}, "has y_train but not its other half: add x_train"),
        ({}, r"has nothing in it, no images and labels: use these names .*\(train_images and train_labels, or x_train"),
        ({"images": IMAGES, "labels": LABELS, "val_labels": LABELS}, "has val_labels but not its other half"),
        ({"images": IMAGES / 255, "labels": LABELS}, r"images is float64 .* not uint8 .*: round to 0 … 255 first"),
        ({"images": IMAGES[0, 0], "labels": LABELS}, r"images is uint8 \(5, 3\), not uint8 .*: stack all pictures"),
        ({"images": np.zeros((20, 3, 32, 32), np.uint8), "labels": LABELS}, "has its channels first"),
        ({"images": IMAGES[:, :0], "labels": LABELS}, "pictures without pixels"),
        ({"images": IMAGES, "labels": LABELS[:9]}, "20 pictures, but labels 9 labels: give one for each picture"),
        ({"images": IMAGES, "labels": LABELS * 0.5}, r"labels is float64 .*: number the classes 0, 1, 2"),
        ({"images": IMAGES, "labels": np.ones((20, 3), int)}, r"labels is int64 \(20, 3\), .*labels\.argmax\(1\)"),
        (
            {"images": IMAGES, "labels": LABELS.astype(str)},
            r"labels is <U\d+ .*: number the classes from 0, .*np\.unique",
        ),
        (
            {"images": IMAGES, "labels": LABELS.astype(object)},
            r"labels\.npy holds objects of Python, .*: store pictures",
        ),
        ({"images": IMAGES, "labels": LABELS - 1}, "has the label -1"),
        ({"images": IMAGES, "labels": LABELS * 10**12}, "labels up to 1000000000000, but 2 different ones"),
        ({"images": IMAGES, "labels": LABELS * 0}, "one class only"),
        ({"images": IMAGES[:0], "labels": LABELS[:0]}, "no pictures in its part train"),
        ({"images": IMAGES, "labels": LABELS, "classes": np.array(["a"])}, "label 1, but names for 1 classes"),
        ({"images": IMAGES, "labels": LABELS, "classes": np.array(["a", "a"])}, "two classes of the same name"),
        (
            {"images": IMAGES, "labels": LABELS, "classes": np.array([1, 2])},
            r"classes is int64 .*: write names, dtype=str",
        ),
        (
            {"images": IMAGES, "labels": LABELS, "val_images": IMAGES[..., 0], "val_labels": LABELS},
            "val has 1 channels, train 3",
        ),
        (
            {"images": IMAGES, "labels": LABELS, "val_images": IMAGES, "val_labels": LABELS + 1},
            r"val has classes that train lacks \(2\)",
        ),
    ],
)
def test_wrong_arrays_are_refused(tmp_path: Path, arrays: dict[str, Any], sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        open_data(save(tmp_path, **arrays))


def archive(path: Path, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(f"{name}.npy", content)
    return path


def npy(array: Any, **options: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, array, **options)
    return file.getvalue()


class Hostile:
    def __reduce__(self) -> tuple[Any, ...]:
        return exec, ("raise AssertionError('a pickle was run')",)


def test_an_archive_of_other_things_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "set.npz", "w") as file:
        file.writestr("roses/1.jpg", b"x")
    with pytest.raises(DataError, match=r"holds roses/1\.jpg, which is no array: write the file with np\.savez"):
        open_data(tmp_path / "set.npz")


def test_a_pickle_inside_is_never_run(tmp_path: Path) -> None:
    content = npy(np.array([Hostile()], dtype=object), allow_pickle=True)
    with pytest.raises(AssertionError):
        pickle.loads(content[content.index(b"\x80") :])
    with pytest.raises(DataError):
        open_data(archive(tmp_path / "set.npz", images=content, labels=npy(LABELS)))


@pytest.mark.parametrize("shape", ["(20, 6, 5, 999999999)", "(9223372036854775807, 9, 9)", "(-1, 6, 5)"])
def test_a_header_that_lies_is_not_believed(tmp_path: Path, shape: str) -> None:
    header = f"{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}".encode().ljust(117) + b"\n"
    content = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(600)
    with pytest.raises(DataError, match="not as long as its header says"):
        open_data(archive(tmp_path / "set.npz", images=content, labels=npy(LABELS)))


def test_an_archive_that_would_fill_the_memory_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "FREE", 1 << 20)
    content = npy(np.zeros((20, 200, 2000), np.uint8))
    with pytest.raises(DataError, match="unpacks to more than 100 times its size"):
        open_data(archive(tmp_path / "set.npz", images=content, labels=npy(LABELS)))


def test_every_damage_is_a_data_error(tmp_path: Path) -> None:
    whole = save(tmp_path, images=IMAGES, labels=LABELS).read_bytes()
    for place in range(0, len(whole), 41):
        for damaged in (whole[:place], whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :]):
            (tmp_path / "set.npz").write_bytes(damaged)
            with contextlib.suppress(DataError):
                open_data(tmp_path / "set.npz")
