"""The Oxford-IIIT Pet data set: images/, and annotations/ with the lists of both parts; 37 breeds."""

from pathlib import Path

import numpy as np

from patchwords.data.sources.files import Files
from patchwords.data.sources.listing import listing
from patchwords.data.sources.names import Names, printable
from patchwords.data.sources.parts import Part, assemble
from patchwords.data.sources.reading import reading
from patchwords.data.sources.source import Data
from patchwords.data.sources.split import Split
from patchwords.errors import DataError

LISTS: dict[Part, str] = {"train": "annotations/trainval.txt", "test": "annotations/test.txt"}


def recognise(folder: Path) -> bool:
    return (folder / "images").is_dir() and all((folder / name).is_file() for name in LISTS.values())


def read(folder: Path, settings: Split | None) -> Data:
    """The published parts; a class is the breed in a picture's name, and its number the published one less one."""
    present = set(listing(folder / "images").files)
    breeds: dict[int, str] = {}
    sources = {part: _source(folder, name, present, breeds) for part, name in LISTS.items()}
    if sorted(breeds) != list(range(len(breeds))):
        raise DataError(f"{folder} numbers its {len(breeds)} breeds with gaps: get annotations/ anew")
    classes = [breeds[number] for number in range(len(breeds))]
    return assemble(folder.name, classes, sources, settings)


def _source(folder: Path, name: str, present: set[str], breeds: dict[int, str]) -> Files:
    with reading(folder / name):
        text = (folder / name).read_text("utf-8")
    names, labels = [], []
    for line, words in enumerate((row.split() for row in text.splitlines()), 1):
        if words and not words[0].startswith("#"):
            picture, number = _row(f"{folder / name}, line {line}", words, present, breeds)
            names.append(f"images/{picture}")
            labels.append(number)
    return Files(folder, Names(names), np.array(labels, dtype=np.int64))


def _row(where: str, words: list[str], present: set[str], breeds: dict[int, str]) -> tuple[str, int]:
    """`Abyssinian_100 1 1 1`: a picture's name, and first of all the number of its breed."""
    if len(words) < 2 or not words[1].isdecimal():
        raise DataError(f"{where} is not a name and the number of a breed: get annotations/ anew")
    breed, number = words[0].rpartition("_")[0], int(words[1]) - 1
    if breeds.setdefault(number, breed) != breed:
        raise DataError(f"{where} gives {printable(breed)} the number of {breeds[number]}: get annotations/ anew")
    if f"{words[0]}.jpg" not in present:
        raise DataError(f"{where} names {printable(words[0])}.jpg, which is not in images/: get the pictures anew")
    return f"{words[0]}.jpg", number
