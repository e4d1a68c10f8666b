"""MNIST's idx files, packed or not: grey pictures and labels, one file each for learning and for testing."""

import gzip
import re
from pathlib import Path

import numpy as np

from patchwords.data.sources.archive import CHUNK
from patchwords.data.sources.arrays import Arrays
from patchwords.data.sources.guard import Guard
from patchwords.data.sources.listing import listing
from patchwords.data.sources.numbered import number_classes
from patchwords.data.sources.parts import Part, assemble
from patchwords.data.sources.reading import reading
from patchwords.data.sources.source import Data, Pixels, Source
from patchwords.data.sources.split import Split
from patchwords.errors import DataError

NAME = re.compile(r"(train|t10k|test)-(images|labels)[-.]idx[13]-ubyte(\.gz)?")
BYTES = 8  # the format's number for unsigned bytes


def recognise(folder: Path) -> bool:
    return ("train", "images") in _files(folder)


def read(folder: Path, settings: Split | None) -> Data:
    """The data set of a folder with train-images-idx3-ubyte and so on."""
    files = _files(folder)
    train = _source(folder, files, "train")
    parts: dict[Part, Source] = {"train": train}
    for word in ("t10k", "test"):
        if (word, "images") in files or (word, "labels") in files:
            parts["test"] = _source(folder, files, word)
    classes = number_classes(str(folder), [source.labels for source in parts.values()])
    return assemble(folder.name, classes, parts, settings, channels=1)


def _files(folder: Path) -> dict[tuple[str, str], Path]:
    """The files by part and kind; an unpacked one is preferred to its packed twin."""
    found = {}
    for name in reversed(listing(folder).files):
        if match := NAME.fullmatch(name):
            found[match[1], match[2]] = folder / name
    return found


def _source(folder: Path, files: dict[tuple[str, str], Path], word: str) -> Arrays:
    for kind in ("images", "labels"):
        if (word, kind) not in files:
            raise DataError(f"{folder} has no {word}-{kind} file: put it beside the other")
    images, labels = load(files[word, "images"], 3), load(files[word, "labels"], 1)
    if len(images) != len(labels):
        raise DataError(f"{folder}: {word} has {len(images)} pictures but {len(labels)} labels: get the files anew")
    return Arrays(images[..., None], labels.astype(np.int64), word)


def load(path: Path, axes: int) -> Pixels:
    """The array in an idx file, which must be of bytes and have so many axes."""
    with reading(path), gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        guard = Guard(file, path)
        header = np.frombuffer(guard.read(4), dtype=np.uint8).tolist()
        if header != [0, 0, BYTES, axes]:
            raise DataError(f"{path} begins with {header}, not with [0, 0, {BYTES}, {axes}]: it is another kind")
        shape = np.frombuffer(guard.read(4 * axes), dtype=">u4").tolist()
        announced = int(np.prod(shape, dtype=object))
        chunks = []
        while chunk := guard.read(CHUNK):
            chunks.append(chunk)
    content = b"".join(chunks)
    if len(content) != announced:
        raise DataError(f"{path} announces {announced} bytes but holds {len(content)}: get it anew")
    return np.frombuffer(content, dtype=np.uint8).reshape(shape)
