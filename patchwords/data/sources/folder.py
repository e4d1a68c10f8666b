"""A folder of class folders, or of train/, val/ and test/ with class folders each: the names of folders are classes."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from patchwords.data.sources.files import Files
from patchwords.data.sources.listing import CONVERT, is_picture, is_unread, listing, only_unread, pictures
from patchwords.data.sources.names import Names, listed, printable
from patchwords.data.sources.parts import Part, assemble, part_of, unlabelled
from patchwords.data.sources.reading import reading
from patchwords.data.sources.source import Data
from patchwords.data.sources.split import Split
from patchwords.errors import DataError

LAYOUT = "make a folder for each class and put its pictures in there (roses/1.jpg, tulips/2.jpg)"


@dataclass
class Found:
    """The pictures of each class, as paths relative to the data folder, and what was left out."""

    classes: dict[str, list[str]] = field(default_factory=dict)
    empty: list[str] = field(default_factory=list)
    strays: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    again: list[str] = field(default_factory=list)

    @property
    def unread(self) -> list[str]:
        return sorted(filter(is_unread, self.others))

    def notes(self) -> Iterator[str]:
        if self.empty:
            yield f"no classes, since they hold no pictures: {listed(self.empty)}"
        if self.strays:
            yield f"without a class, since they lie beside the class folders: {listed(self.strays)}"
        others = [name for name in self.others if not is_unread(name)]
        if others:
            yield f"left out, since they are no pictures: {listed(others)}"
        if self.unread:
            yield f"left out, since such files are not read, {CONVERT}: {listed(self.unread)}"
        if self.again:
            yield f"left out, since they link to folders that were read already: {listed(self.again)}"


def read(folder: Path, settings: Split | None) -> Data:
    """The data set in a folder."""
    places = parts_in(folder) or {"train": ""}
    found = {part: scan(folder, place) for part, place in places.items()}
    for part, place in places.items():
        _check(folder / place, found[part])
    _hint(folder / places["train"], found["train"].classes)
    notes = [*_beside(folder, places), *(note for each in found.values() for note in each.notes())]
    return build(folder, {part: each.classes for part, each in found.items()}, settings, notes)


def is_labelled(folder: Path) -> bool:
    """Whether there is more than one class to learn from."""
    return len(scan(folder, parts_in(folder).get("train", "")).classes) > 1


def read_plain(folder: Path, settings: Split | None) -> Data:
    """All pictures in a folder, however deep, without labels."""
    found, sources = Found(), {}
    for part, place in (parts_in(folder) or {"train": ""}).items():
        paths = _walk(folder, place, found)
        sources[part] = Files(folder, Names(paths), np.zeros(len(paths), dtype=np.int64))
    if not any(map(len, sources.values())):
        none = only_unread(found.unread) if found.unread else "no pictures: put some in there, or give another folder"
        raise DataError(f"{printable(str(folder))} holds {none}")
    return unlabelled(folder.name, sources, settings, list(found.notes()))


def build(
    folder: Path, parts: Mapping[Part, Mapping[str, list[str]]], settings: Split | None, notes: list[str]
) -> Data:
    """A data set of files, from the paths of each class of each part; labels go by the classes' names."""
    classes = sorted({name for part in parts.values() for name in part})
    sources = {part: _source(folder, classes, found) for part, found in parts.items()}
    return assemble(folder.name, classes, sources, settings, notes=notes)


def parts_in(folder: Path) -> dict[Part, str]:
    """The folders of the parts by name; none if these are class folders, one of which may be called train."""
    names = listing(folder).folders
    parts: dict[Part, str] = {}
    for name in names:
        part = part_of(name)
        if part in parts:
            raise DataError(f"{folder} has both {parts[part]} and {name}, which mean the same: keep one of them")
        if part:
            parts[part] = name
    return parts if "train" in parts and (len(parts) > 1 or len(names) == 1) else {}


def scan(folder: Path, place: str = "") -> Found:
    """The class folders at a place below the data folder, and all pictures inside them, however deep."""
    found = Found()
    here = listing(folder / place)
    for name in here.folders:
        if paths := _walk(folder, os.path.join(place, name), found):
            found.classes.setdefault(printable(name), []).extend(paths)
        else:
            found.empty.append(os.path.join(place, name))
    for name in here.files + here.others:
        (found.strays if is_picture(name) else found.others).append(os.path.join(place, name))
    return found


def _walk(folder: Path, place: str, found: Found) -> list[str]:
    """The pictures below a class folder; each folder is read once, so that links in a ring come to an end."""
    seen = {_identity(folder)} if place else set()
    waiting, paths = [place], []
    while waiting:
        current = waiting.pop()
        if (identity := _identity(folder / current)) in seen:
            found.again.append(current)
            continue
        seen.add(identity)
        here = listing(folder / current)
        waiting += [os.path.join(current, name) for name in here.folders]
        paths += [os.path.join(current, name) for name in pictures(here.files)]
        found.others += [os.path.join(current, name) for name in here.files + here.others if not is_picture(name)]
        found.others += [os.path.join(current, name) for name in pictures(here.others)]
    return sorted(path.replace(os.sep, "/") for path in paths)


def _identity(folder: Path) -> tuple[int, int]:
    with reading(folder):
        status = os.stat(folder)
        return status.st_dev, status.st_ino


def _source(folder: Path, classes: list[str], found: Mapping[str, list[str]]) -> Files:
    numbers = [(index, found.get(name, [])) for index, name in enumerate(classes)]
    labels = np.repeat([index for index, _ in numbers], [len(paths) for _, paths in numbers]).astype(np.int64)
    return Files(folder, Names(path for _, paths in numbers for path in paths), labels)


def _beside(folder: Path, places: Mapping[Part, str]) -> list[str]:
    """A note on folders that lie beside those of the parts."""
    names = [name for name in listing(folder).folders if name not in places.values()]
    split = "" not in places.values()
    return [f"left out, since they lie beside {', '.join(places.values())}: {listed(names)}"] if split and names else []


def _check(folder: Path, found: Found) -> None:
    if not found.classes and found.strays:
        raise DataError(f"{printable(str(folder))} holds {len(found.strays)} pictures but no class folders: {LAYOUT}")
    if not found.classes and (unread := found.unread):
        raise DataError(f"{printable(str(folder))} holds {only_unread(unread)}")
    if not found.classes:
        raise DataError(f"{printable(str(folder))} holds no pictures in class folders: {LAYOUT}")


def _hint(folder: Path, classes: Mapping[str, list[str]]) -> None:
    """One class that is made of folders is most likely a data set one level too high."""
    (name, paths), *others = classes.items()
    above = paths[0].split("/").index(name) if name in paths[0].split("/") else 0
    inner = sorted({parts[above + 1] for path in paths if len(parts := path.split("/")) > above + 2})
    if not others and len(inner) > 1:
        raise DataError(
            f"{printable(str(folder))} has one class only ({name}), and one class cannot be told from another; "
            f"if its folders ({listed(inner)}) are the classes, give {printable(str(folder / name))} instead"
        )
