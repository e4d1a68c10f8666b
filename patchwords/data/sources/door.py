"""The one door to pictures: a name, a folder or a file, whatever its layout, becomes a data set."""

import os
from collections.abc import Callable
from dataclasses import replace
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
from patchwords.settings import nearest, texts

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

    Without a `split` nothing is held out, and one class is enough: pictures to judge a model by. What lies here under
    the name of a public set goes before its download; the digits need none, and are what their name says.
    """
    word = spelled(given)
    path = _absolute(Path(word))
    if word == digits.NAME:
        beside = (f"{word} are the built-in ones; what lies here is {os.path.join(os.curdir, word)}",)
        return _noted(digits.read(split), beside if os.path.exists(path) else ())
    here = (f"{word} is {path}, which lies here, and not the public set of that name",) if word in PUBLIC else ()
    if word and os.path.isdir(path):
        return _noted(_reader(path)(path, split), here)
    if word and os.path.isfile(path):
        return _noted(_file(path, split), here)
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
    word = spelled(given)
    path = _absolute(Path(word))
    if word not in ("", digits.NAME) and os.path.isdir(path) and _is_plain(path):
        return folder.read_plain(path, split)
    return open_data(word, split=split, offline=offline, mirror=mirror, progress=progress)


def spelled(given: str | Path) -> str:
    """The word for it: a `Path` is one, also where a set is called so."""
    texts(data=given)
    word = str(given)
    return os.path.join(os.curdir, word) if isinstance(given, Path) and word == digits.NAME else word


def would_hide(word: str) -> bool:
    """Whether a folder of this name would go before a data set that is called so."""
    return word in PUBLIC


def place(given: str) -> str:
    """What opens the same data from anywhere: the whole path, or the name of a set."""
    path = _absolute(Path(given))
    return str(path) if given != digits.NAME and (path.exists() or "{" in path.name) else given


def _noted(data: Data, notes: tuple[str, ...]) -> Data:
    """With what should be known of how it was found."""
    return replace(data, notes=(*notes, *data.notes))


def _is_plain(path: Path) -> bool:
    """Whether it is a folder of pictures that nobody told apart."""
    return _reader(path) is folder.read and not folder.is_labelled(path)


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
