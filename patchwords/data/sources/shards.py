"""Tar shards in the WebDataset layout: 0001.jpg with 0001.cls (a number), 0001.txt (a name) or 0001.json beside it."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patchwords.data.sources.archive import Member, walk
from patchwords.data.sources.listing import PICTURES, listing
from patchwords.data.sources.names import Names, listed, printable
from patchwords.data.sources.numbered import number_classes
from patchwords.data.sources.parts import Part, assemble, part_of
from patchwords.data.sources.reading import reading
from patchwords.data.sources.source import Data, Labels, Source
from patchwords.data.sources.split import Split
from patchwords.errors import DataError, UsageError

KINDS = tuple(suffix.removeprefix(".") for suffix in PICTURES)
LABELS = ("cls", "json", "txt")  # the first that is there counts
KNOWN = {*KINDS, *LABELS}
MOST_LABEL = 1 << 20  # bytes
RANGE = re.compile(r"\{(\d+)\.\.(\d+)\}")
MOST_SHARDS = 1_000_000


class Shards(Source):
    """Pictures by their places in tar files, so that any of them can be read at any time."""

    def __init__(self, paths: Sequence[Path], names: Names, places: NDArray[np.int64], labels: Labels):
        self.paths = [str(path.absolute()) for path in paths]
        self.names = names
        self.places = places  # (n, 3): which shard, where in it, how long
        self.labels = labels

    def picture(self, index: int) -> bytes:
        shard, offset, size = self.places[index].tolist()
        with open(self.paths[shard], "rb") as file:
            file.seek(offset)
            content = file.read(size)
        if len(content) != size:
            raise OSError(f"{self.paths[shard]} became shorter")
        return content

    def name(self, index: int) -> str:
        return printable(f"{Path(self.paths[self.places[index, 0]]).name}/{self.names[index]}")

    def size(self, index: int) -> int:
        return int(self.places[index, 2])


@dataclass
class Sample:
    """What lies under one key of a shard."""

    pictures: list[Member] = field(default_factory=list)
    labels: dict[str, str] = field(default_factory=dict)  # by kind


@dataclass
class Index:
    """What was found in the shards of one part."""

    names: list[str] = field(default_factory=list)
    places: list[tuple[int, int, int]] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)  # members that are neither pictures nor labels

    def source(self, paths: Sequence[Path], numbers: dict[str, int]) -> Shards:
        labels = np.array([numbers[label] for label in self.labels], dtype=np.int64)
        return Shards(paths, Names(self.names), np.array(self.places, dtype=np.int64).reshape(-1, 3), labels)


def recognise(folder: Path) -> bool:
    here = listing(folder)
    return not here.folders and any(name.endswith(".tar") for name in here.files)


def read(folder: Path, settings: Split | None) -> Data:
    """All shards of a folder; train-, val- and test- at the front of their names tell the parts."""
    return read_files([folder / name for name in listing(folder).files if name.endswith(".tar")], settings, folder.name)


def expand(pattern: str) -> list[Path]:
    """The shards that `train-{000000..000009}.tar` stands for."""
    if not (match := RANGE.search(pattern)) or RANGE.search(pattern, match.end()):
        raise UsageError(f"{pattern} is no pattern for shards: write one range, as train-{{000000..000009}}.tar")
    first, last = int(match[1]), int(match[2])
    if not 0 <= last - first < MOST_SHARDS:
        raise UsageError(f"{pattern} counts from {first} to {last}: count upwards, to less than {MOST_SHARDS} shards")
    before, after = pattern[: match.start()], pattern[match.end() :]
    return [Path(f"{before}{number:0{len(match[1])}}{after}") for number in range(first, last + 1)]


def read_files(paths: Sequence[Path], settings: Split | None, name: str) -> Data:
    """A data set of these shards."""
    files: dict[Part, list[Path]] = {}
    for path in paths:
        part = part_of(re.split(r"[^A-Za-z]", path.name, maxsplit=1)[0])
        files.setdefault(part or "train", []).append(path)
    indices = {part: _index(shards) for part, shards in files.items()}
    numbers = _numbers(name, [label for index in indices.values() for label in index.labels])
    sources: dict[Part, Source] = {part: index.source(files[part], numbers) for part, index in indices.items()}
    others = [other for index in indices.values() for other in index.others]
    notes = [f"left out, since they are neither pictures nor labels: {listed(others)}"]
    return assemble(name, list(numbers), sources, settings, notes=notes if others else [])


def _numbers(name: str, labels: list[str]) -> dict[str, int]:
    """The number of each class: a label that is a number is its own, and names are sorted."""
    classes = sorted(set(labels))
    if all(label.isdecimal() and str(int(label)) == label for label in classes):
        classes = number_classes(name, [np.array([int(label) for label in classes], dtype=np.int64)])
    return {label: number for number, label in enumerate(classes)}


def _index(paths: Sequence[Path]) -> Index:
    index = Index()
    for shard, path in enumerate(paths):
        for key, sample in _samples(path, index.others).items():
            if len(sample.pictures) != 1 or not sample.labels:
                names = [*(member.name for member in sample.pictures), *(f".{kind}" for kind in sample.labels)]
                what = listed(names, 9) or "nothing"
                raise DataError(f"{path}: {printable(key)} has {what}: a sample is one picture and one label")
            (member,) = sample.pictures
            index.names.append(member.name)
            index.places.append((shard, member.offset, member.size))
            index.labels.append(next(sample.labels[kind] for kind in LABELS if kind in sample.labels))
    return index


def _samples(path: Path, others: list[str]) -> dict[str, Sample]:
    """The members of a shard by key, which is the path up to the first dot of the name."""
    _check_plain(path)
    length = path.stat().st_size
    samples: dict[str, Sample] = {}
    for member in walk(path):
        if member.offset + member.size > length:
            raise DataError(f"{path} ends within {printable(member.name)}: get it anew")
        folder, _, name = member.name.rpartition("/")
        stem, _, kind = name.partition(".")
        kind = kind.lower()
        if not stem or kind not in KNOWN:
            others.append(member.name)
            continue
        sample = samples.setdefault(f"{folder}/{stem}".lstrip("/"), Sample())
        if kind in KINDS:
            sample.pictures.append(member)
        elif (label := _label(path, kind, member)) is not None:
            sample.labels[kind] = label
    return samples


def _check_plain(path: Path) -> None:
    with reading(path), path.open("rb") as file:
        if file.read(2) == b"\x1f\x8b":
            raise DataError(f"{path} is packed, and single pictures cannot be read from it: gunzip it first")


def _label(path: Path, kind: str, member: Member) -> str | None:
    """The class in a label file; JSON that says nothing of a label may be there for something else."""
    where = f"{path}: {printable(member.name)}"
    content = member.read(MOST_LABEL)
    try:
        text: Any = content.decode("utf-8").strip()
        value = json.loads(text) if kind == "json" else text
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where} is no {kind} in UTF-8: write the class there") from error
    if kind == "json":
        value = value.get("label") if type(value) is dict else None
        if value is None:
            return None
    label = str(value) if type(value) in (int, str) else ""
    if not label or (kind == "cls" and not label.isdecimal()):
        raise DataError(f"{where} has the label {str(value)[:50]!r}: a .cls holds a number, .txt and .json a name")
    return printable(label)
