"""CIFAR in all the forms it is published in."""

import pickle
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from patchwords.data.sources.door import open_data
from patchwords.data.sources.source import Source
from patchwords.data.sources.split import Split
from patchwords.errors import DataError

PIXELS = np.random.default_rng(0).integers(0, 256, (24, 3072)).astype(np.uint8)
LABELS = np.arange(24) % 2
BATCHES = {f"data_batch_{number}": slice(4 * number - 4, 4 * number) for number in range(1, 6)}


def python10() -> dict[str, bytes]:
    files = {name: pickled(PIXELS[chosen], labels=LABELS[chosen].tolist()) for name, chosen in BATCHES.items()}
    meta = {b"label_names": [b"airplane", b"automobile"], b"num_vis": 3072}
    return {
        **files,
        "test_batch": pickled(PIXELS[20:], labels=LABELS[20:].tolist()),
        "batches.meta": pickle.dumps(meta),
    }


def binary10() -> dict[str, bytes]:
    rows = np.concatenate([LABELS[:, None].astype(np.uint8), PIXELS], axis=1)
    files = {f"{name}.bin": rows[chosen].tobytes() for name, chosen in BATCHES.items()}
    return {**files, "test_batch.bin": rows[20:].tobytes(), "batches.meta.txt": b"airplane\nautomobile\n\n"}


def python100() -> dict[str, bytes]:
    labels = {"fine_labels": LABELS.tolist(), "coarse_labels": [9] * 24}
    meta = {"fine_label_names": ["airplane", "automobile"], "coarse_label_names": ["vehicles"]}
    test = {key: value[20:] for key, value in labels.items()}
    train = {key: value[:20] for key, value in labels.items()}
    return {"train": pickled(PIXELS[:20], **train), "test": pickled(PIXELS[20:], **test), "meta": pickle.dumps(meta)}


def binary100() -> dict[str, bytes]:
    rows = np.concatenate([np.full((24, 1), 9, np.uint8), LABELS[:, None].astype(np.uint8), PIXELS], axis=1)
    names = {"fine_label_names.txt": b"airplane\nautomobile\n", "coarse_label_names.txt": b"vehicles\n"}
    return {"train.bin": rows[:20].tobytes(), "test.bin": rows[20:].tobytes(), **names}


def pickled(pixels: np.ndarray, **labels: Any) -> bytes:
    return pickle.dumps({"data": pixels, **labels}, 2)


FORMS = {
    "cifar-10-batches-py": python10,
    "cifar-10-batches-bin": binary10,
    "cifar-100-python": python100,
    "cifar-100-binary": binary100,
}


def write(folder: Path, files: dict[str, bytes]) -> Path:
    folder.mkdir(parents=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    (folder / "readme.html").write_text("<html>")
    return folder


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("given", ["folder", "above", "archive"])
def test_every_form_gives_the_same_pictures(tmp_path: Path, form: str, given: str) -> None:
    folder = write(tmp_path / "sets" / form, FORMS[form]())
    with tarfile.open(tmp_path / "cifar.tar.gz", "w:gz") as archive:
        archive.add(folder, form)
    data = open_data({"folder": folder, "above": folder.parent, "archive": tmp_path / "cifar.tar.gz"}[given])
    assert data.name == {"folder": form, "above": "sets", "archive": "cifar"}[given]
    assert data.classes == ("airplane", "automobile")
    assert {split: len(source) for split, source in data.splits.items()} == {"train": 16, "val": 4, "test": 4}
    learned, held, tested = (content(source) for source in data.splits.values())
    assert learned | held == published("train", slice(0, 20))
    assert tested == published("test", slice(20, 24))


def content(source: Source) -> dict[str, tuple[int, bytes]]:
    """Label and pixels of every picture by its name."""
    everything = range(len(source))
    return {source.name(i): (int(source.labels[i]), np.asarray(source.picture(i)).tobytes()) for i in everything}


def published(part: str, chosen: slice) -> dict[str, tuple[int, bytes]]:
    images = PIXELS[chosen].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    rows = zip(LABELS[chosen].tolist(), images, strict=True)
    return {f"{part}/{number}": (label, image.tobytes()) for number, (label, image) in enumerate(rows)}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("settings", [Split(), Split(share=0.5), Split(share=0.3, seed=7)])
def test_validation_comes_from_train_and_the_test_set_waits(tmp_path: Path, form: str, settings: Split) -> None:
    data = open_data(write(tmp_path / form, FORMS[form]()), split=settings)
    assert np.bincount(data.val.labels).tolist() == [int(10 * settings.share)] * 2
    assert all(data.val.name(index).startswith("train/") for index in range(len(data.val)))
    assert data.test is not None
    assert [data.test.name(index) for index in range(4)] == [f"test/{index}" for index in range(4)]
    assert data.notes == (
        f"{len(data.val)} of 20 pictures are held out for validation "
        f"({100 * settings.share:g} % of each class, rounded down, seed {settings.seed})",
        "the test pictures decide nothing: they are scored once, at the end",
    )


class Hostile:
    def __reduce__(self) -> tuple[Any, ...]:
        return exec, ("raise AssertionError('a pickle was run')",)


def test_a_hostile_batch_is_refused(tmp_path: Path) -> None:
    files = python10() | {"data_batch_3": pickle.dumps({"data": Hostile(), "labels": []})}
    with pytest.raises(DataError, match=r"builtins\.exec, and nothing of the kind is run"):
        open_data(write(tmp_path / "cifar-10-batches-py", files))


@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        (python10() | {"test_batch": pickled(PIXELS[20:], labels=[0])}, "with 1 labels is no batch of CIFAR"),
        (python10() | {"test_batch": pickled(PIXELS[20:, :7], labels=[0] * 4)}, r"\(4, 7\) with 4 labels is no batch"),
        (python10() | {"test_batch": pickled(PIXELS[20:], labels=[0, 1, 2, 0])}, "label 2, but names for 2 classes"),
        (python10() | {"test_batch": pickle.dumps({})}, r"is damaged or no such file \(KeyError 'data'\)"),
        (python10() | {"test_batch": pickle.dumps([])}, "holds a table, and this one does not"),
        (binary10() | {"test_batch.bin": b"x" * 3072}, "is damaged"),
        (binary100() | {"train.bin": b""}, "no pictures in its part train"),
    ],
)
def test_wrong_files_are_refused(tmp_path: Path, files: dict[str, bytes], sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        open_data(write(tmp_path / "cifar", files))


def test_two_forms_in_one_folder_are_refused(tmp_path: Path) -> None:
    for form, files in FORMS.items():
        write(tmp_path / "sets" / form, files())
    with pytest.raises(DataError, match="give the folder of one of them"):
        open_data(tmp_path / "sets")


def test_an_archive_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x")
    with tarfile.open(tmp_path / "x.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "a.txt", "a.txt")
    with pytest.raises(DataError, match="is not an archive of CIFAR: unpack it"):
        open_data(tmp_path / "x.tar.gz")
