"""Arrays in a .npz file: images uint8 (n, height, width[, channels]) and labels, numbers of classes from 0.

The keys are `images` and `labels`, or with a part in front as in MedMNIST (`train_images`, `val_labels`, `test_images`)
or behind as in Keras (`x_train`, `y_test`); `classes` may hold the names.
"""

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from patchwords.data.sources.arrays import Arrays
from patchwords.data.sources.guard import most_unpacked, too_much
from patchwords.data.sources.names import printable
from patchwords.data.sources.numbered import number_classes
from patchwords.data.sources.parts import Part, assemble
from patchwords.data.sources.reading import reading
from patchwords.data.sources.source import Data, Labels, Pixels
from patchwords.data.sources.split import Split
from patchwords.errors import DataError

KEYS: dict[Part, tuple[tuple[str, str], ...]] = {
    "train": (("images", "labels"), ("train_images", "train_labels"), ("x_train", "y_train")),
    "val": (("val_images", "val_labels"), ("x_val", "y_val")),
    "test": (("test_images", "test_labels"), ("x_test", "y_test")),
}
PLAIN = "store pictures of one size as uint8, labels as whole numbers and classes as texts (dtype=str)"
Array = NDArray[Any]


def read(path: Path, settings: Split | None) -> Data:
    """The data set in a .npz file."""
    with reading(path):
        _check_headers(path)
        with np.load(path, allow_pickle=False) as file:
            parts = {part: _part(path, file, *keys) for part, keys in _pairs(path, file.files).items()}
            names = _names(path, file["classes"]) if "classes" in file.files else []
    channels = parts["train"].images.shape[3]
    for part, source in parts.items():
        if source.images.shape[3] != channels:
            raise DataError(f"{path}: {part} has {source.images.shape[3]} channels, train {channels}: make them equal")
    classes = number_classes(str(path), [source.labels for source in parts.values()], names)
    return assemble(path.stem, classes, parts, settings, channels=channels)


def _pairs(path: Path, names: Sequence[str]) -> dict[Part, tuple[str, str]]:
    """The keys of each part; half a pair is an error."""
    found: dict[Part, tuple[str, str]] = {}
    for part, choices in KEYS.items():
        for images, labels in choices:
            if (images in names) != (labels in names):
                there, missing = (images, labels) if images in names else (labels, images)
                raise DataError(f"{path} has {there} but not its other half: add {missing}")
            if images in names:
                found.setdefault(part, (images, labels))
    if "train" not in found:
        keys = f"{', '.join(map(printable, names[:10]))} but" if names else "nothing in it,"
        raise DataError(
            f"{path} has {keys} no images and labels: use these names for what is learned "
            "(train_images and train_labels, or x_train and y_train, do as well)"
        )
    return found


def _check_headers(path: Path) -> None:
    """No lie about a size is believed: each array's header must agree with the archive."""
    with zipfile.ZipFile(path) as archive:
        if sum(member.file_size for member in archive.infolist()) > most_unpacked(path):
            raise DataError(too_much(path))
        for member in archive.infolist():
            name = printable(member.filename)
            if not member.filename.endswith(".npy"):
                raise DataError(f"{path} holds {name}, which is no array: write the file with np.savez")
            with archive.open(member) as file:
                announced = _announced(file)
                if announced is None:
                    raise DataError(f"{path}: {name} holds objects of Python, which are not opened: {PLAIN}")
                if file.tell() + announced != member.file_size:
                    raise DataError(f"{path}: {name} is not as long as its header says")


def _announced(file: IO[bytes]) -> int | None:
    """The bytes of an array by its header; nobody knows how many where they are pickled."""
    version = np.lib.format.read_magic(file)
    reader = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    shape, _, dtype = reader[version](file)
    return None if dtype.hasobject else int(np.prod([dtype.itemsize, *shape], dtype=object))


def _part(path: Path, file: Mapping[str, Array], images_key: str, labels_key: str) -> Arrays:
    images, labels = _images(path, images_key, file[images_key]), _labels(path, labels_key, file[labels_key])
    if len(images) != len(labels):
        raise DataError(
            f"{path}: {images_key} has {len(images)} pictures, but {labels_key} {len(labels)} labels: "
            "give one for each picture"
        )
    return Arrays(images, labels, images_key)


def _images(path: Path, key: str, images: Array) -> Pixels:
    if images.dtype != np.uint8 or images.ndim not in (3, 4):
        advice = "round to 0 … 255 first" if images.ndim in (3, 4) else "stack all pictures into one such array"
        raise DataError(
            f"{path}: {key} is {images.dtype} {images.shape}, not uint8 (n, height, width) or "
            f"(n, height, width, channels): {advice}"
        )
    if images.ndim == 4 and images.shape[1] in (1, 3) and images.shape[3] > 16:
        raise DataError(f"{path}: {key} {images.shape} has its channels first: store them last, transpose(0, 2, 3, 1)")
    if 0 in images.shape[1:]:
        raise DataError(f"{path}: {key} {images.shape} holds pictures without pixels")
    return np.ascontiguousarray(images if images.ndim == 4 else images[..., None])


def _labels(path: Path, key: str, labels: Array) -> Labels:
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1 or labels.dtype.kind not in "iu":
        raise DataError(
            f"{path}: {key} is {labels.dtype} {labels.shape}, not a whole number for each picture: "
            f"{_as_numbers(labels)}"
        )
    return labels.astype(np.int64)


def _as_numbers(labels: Array) -> str:
    """How labels that are none become whole numbers."""
    if labels.ndim == 2 and labels.dtype.kind in "biuf":
        return "where each row marks one class, store labels.argmax(1)"
    if labels.ndim == 1 and labels.dtype.kind in "US":
        return "number the classes from 0, classes, labels = np.unique(labels, return_inverse=True), and store both"
    return "number the classes 0, 1, 2, …"


def _names(path: Path, names: Array) -> list[str]:
    if names.ndim != 1 or names.dtype.kind != "U":
        raise DataError(f"{path}: classes is {names.dtype} {names.shape}, not a list of texts: write names, dtype=str")
    return [printable(name) for name in names.tolist()]
