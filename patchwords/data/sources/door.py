"""The one door to pictures: a name, a folder or a file, whatever its layout, becomes a data set."""

import os
from collections.abc import Callable
from pathlib import Path

from patchwords import download
from patchwords.data.sources import (
    cifar,
    digits,
    flowers102,
    folder,
    idx,
    imagenet,
    manifest,
    named,
    npz,
    pets,
    shards,
)
from patchwords.data.sources.archive import is_archive
from patchwords.data.sources.public import PUBLIC
from patchwords.data.sources.source import Data
from patchwords.data.sources.split import Split
from patchwords.errors import UsageError
from patchwords.settings import nearest

Reader = Callable[[Path, Split | None], Data]

LAYOUTS: tuple[tuple[Callable[[Path], bool], Reader], ...] = (
    (shards.recognise, shards.read),
    (cifar.recognise, cifar.read),
    (idx.recognise, idx.read),
    (pets.recognise, pets.read),
    (flowers102.recognise, flowers102.read),
    (imagenet.recognise, imagenet.read),
)


def open_data(
    given: str | Path,
    *,
    split: Split | None = Split(),  # noqa: B008  (frozen)
    offline: bool = False,
    mirror: str = "",
    progress: download.Progress | None = None,
    cache: Path | None = None,
) -> Data:
    """A data set with at least two classes, and pictures to learn from and to validate with.

    Without a `split` nothing is held out, and one class is enough: pictures to judge a model by.
    """
    word = str(given)
    path = _absolute(Path(given))
    if word and os.path.isdir(path):
        return _reader(path)(path, split)
    if word and os.path.isfile(path):
        return _file(path, split)
    if word == digits.NAME:
        return digits.read(split)
    if word in PUBLIC:
        return named.read(word, split, offline=offline, mirror=mirror, progress=progress, cache=cache)
    if "{" in path.name:
        return shards.read_files(shards.expand(str(path)), split, path.name.partition("{")[0])
    near = nearest(word, (digits.NAME, *PUBLIC))
    raise UsageError(f"{word!r} does not exist, as a folder, a file or a public data set; {near}")


def open_pictures(
    given: str | Path,
    *,
    split: Split | None,
    offline: bool = False,
    mirror: str = "",
    progress: download.Progress | None = None,
) -> Data:
    """Pictures that need no labels: any data set, or a folder whose pictures nobody told apart."""
    path = _absolute(Path(given))
    if str(given) and os.path.isdir(path) and _reader(path) is folder.read and not folder.is_labelled(path):
        return folder.read_plain(path, split)
    return open_data(given, split=split, offline=offline, mirror=mirror, progress=progress)


def is_name(word: str) -> bool:
    """Whether a data set is called so, which a folder of that name would hide."""
    return word == digits.NAME or word in PUBLIC


def place(given: str) -> str:
    """What opens the same data from anywhere: the whole path, or the name of a public set."""
    path = _absolute(Path(given))
    return str(path) if path.exists() or "{" in path.name else given


def _absolute(path: Path) -> Path:
    """The path with a name of its own, whatever it is called from here (., .., a/../b)."""
    path = Path(os.path.expanduser(path))
    return path.resolve() if ".." in path.parts else Path(os.path.abspath(path))


def _reader(path: Path) -> Reader:
    return next((read for recognise, read in LAYOUTS if recognise(path)), folder.read)


def _file(path: Path, settings: Split | None) -> Data:
    suffix = path.suffix.lower()
    if suffix == ".npz":
        return npz.read(path, settings)
    if suffix in manifest.SUFFIXES:
        return manifest.read(path, settings)
    if suffix == ".tar":
        return shards.read_files([path], settings, path.stem)
    if is_archive(path.name):
        return cifar.read(path, settings)
    kinds = ", ".join((".npz", *manifest.SUFFIXES, ".tar (shards), .tar.gz (CIFAR)"))
    raise UsageError(f"{path} is none of {kinds}: give one of these, or a folder with pictures (unpack archives first)")
