"""CIFAR-10 and CIFAR-100 as published: the archives or their folders, in the python and the binary form."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patchwords.data.sources import pickles
from patchwords.data.sources.archive import walk
from patchwords.data.sources.arrays import Arrays
from patchwords.data.sources.listing import listing
from patchwords.data.sources.numbered import number_classes
from patchwords.data.sources.parts import assemble
from patchwords.data.sources.reading import reading
from patchwords.data.sources.source import Data, Labels, Pixels
from patchwords.data.sources.split import Split
from patchwords.errors import DataError

MOST_BYTES = 1 << 30  # of one file; CIFAR-100's largest has 155 MB
Batch = tuple[NDArray[Any], NDArray[Any]]  # (n, 3072) and (n,)


@dataclass(frozen=True)
class Form:
    """How one of the archives is laid out: its folder, its files, and how a batch and the names are read."""

    folder: str
    train: tuple[str, ...]
    test: str
    meta: str
    batch: Callable[[bytes], Batch]
    names: Callable[[bytes], list[str]]

    @property
    def files(self) -> set[str]:
        return {*self.train, self.test, self.meta}


def recognise(folder: Path) -> bool:
    return any(_place(folder, form) for form in FORMS)


def read(path: Path, settings: Split | None) -> Data:
    """CIFAR from a folder or from a .tar.gz; fine labels of CIFAR-100."""
    with reading(path):
        form, contents = _folder(path) if path.is_dir() else _archive(path)
        classes = form.names(contents.pop(form.meta))
        train = _source(path, "train", [form.batch(contents.pop(name)) for name in form.train])
        test = _source(path, "test", [form.batch(contents.pop(form.test))])
    number_classes(str(path), (train.labels, test.labels), classes)
    name = path.name.removesuffix(".gz").removesuffix(".tar").removesuffix(".tgz")
    return assemble(name, classes, {"train": train, "test": test}, settings)


def _place(folder: Path, form: Form) -> Path | None:
    """Where the files of a form are: in this folder, or in the one inside it that the archive makes."""
    here = listing(folder)
    if form.files <= set(here.files):
        return folder
    inside = form.folder in here.folders and form.files <= set(listing(folder / form.folder).files)
    return folder / form.folder if inside else None


def _folder(folder: Path) -> tuple[Form, dict[str, bytes]]:
    places = {form.folder: (form, place) for form in FORMS if (place := _place(folder, form))}
    if len(places) != 1:
        raise DataError(f"{folder} holds {', '.join(places) or 'no data of CIFAR'}: give the folder of one of them")
    ((form, place),) = places.values()
    return form, {name: (place / name).read_bytes() for name in form.files}


def _archive(path: Path) -> tuple[Form, dict[str, bytes]]:
    wanted = {name for form in FORMS for name in form.files}
    contents: dict[str, bytes] = {}
    for member in walk(path):
        if (name := member.name.rpartition("/")[2]) in wanted:
            contents[name] = member.read(MOST_BYTES)
    for form in FORMS:
        if form.files <= contents.keys():
            return form, contents
    raise DataError(f"{path} is not an archive of CIFAR: unpack it, and give the folder with the pictures")


def _source(path: Path, part: str, batches: list[Batch]) -> Arrays:
    images: list[Pixels] = []
    labels: list[Labels] = []
    for pixels, numbers in batches:
        if pixels.dtype != np.uint8 or pixels.shape != (len(numbers), 3072) or numbers.dtype.kind not in "iu":
            raise DataError(f"{path}: {pixels.dtype} {pixels.shape} with {len(numbers)} labels is no batch of CIFAR")
        images.append(pixels.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))
        labels.append(numbers.astype(np.int64))
    return Arrays(np.concatenate(images), np.concatenate(labels), part)


def _pickled(key: str) -> Callable[[bytes], Batch]:
    def batch(content: bytes) -> Batch:
        table = pickles.loads(content)
        return table["data"], np.asarray(table[key])

    return batch


def _pickled_names(key: str) -> Callable[[bytes], list[str]]:
    def names(content: bytes) -> list[str]:
        given = pickles.loads(content)[key]
        return [name.decode("utf-8") if isinstance(name, bytes) else str(name) for name in given]

    return names


def _binary(labels: int) -> Callable[[bytes], Batch]:
    """Records of so many labels, of which the last counts, and 3072 pixels."""

    def batch(content: bytes) -> Batch:
        rows = np.frombuffer(content, dtype=np.uint8).reshape(-1, labels + 3072)
        return rows[:, labels:], rows[:, labels - 1]

    return batch


def _lines(content: bytes) -> list[str]:
    return content.decode("utf-8").split()


BATCHES = tuple(f"data_batch_{number}" for number in range(1, 6))
FORMS = (
    Form(
        "cifar-10-batches-py", BATCHES, "test_batch", "batches.meta", _pickled("labels"), _pickled_names("label_names")
    ),
    Form(
        "cifar-10-batches-bin",
        tuple(f"{name}.bin" for name in BATCHES),
        "test_batch.bin",
        "batches.meta.txt",
        _binary(1),
        _lines,
    ),
    Form(
        "cifar-100-python",
        ("train",),
        "test",
        "meta",
        _pickled("fine_labels"),
        _pickled_names("fine_label_names"),
    ),
    Form("cifar-100-binary", ("train.bin",), "test.bin", "fine_label_names.txt", _binary(2), _lines),
)
