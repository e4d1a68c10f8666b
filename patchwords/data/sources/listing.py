"""What lies in a folder, as far as pictures are concerned: sorted by name, without what systems leave behind."""

import os
from collections.abc import Iterable
from typing import NamedTuple

from patchwords.data.sources.names import listed
from patchwords.data.sources.reading import reading

PICTURES = (".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff")
UNREAD = (
    ".heic",
    ".heif",
    ".avif",
    ".jxl",
    ".jp2",
    ".svg",
    ".psd",
    ".dng",
    ".cr2",
    ".cr3",
    ".nef",
    ".arw",
    ".raf",
    ".orf",
)
CONVERT = "convert them to JPEG or PNG"
LITTER = ("__macosx", "thumbs.db", "ehthumbs.db", "desktop.ini", "@eadir", "$recycle.bin", "lost+found")


class Listing(NamedTuple):
    """The names in a folder; `others` are neither folders nor files: sockets, links that lead nowhere."""

    folders: list[str]
    files: list[str]
    others: list[str]


def listing(folder: str | os.PathLike[str]) -> Listing:
    """The names in a folder in code-point order, the hidden ones left out."""
    found = Listing([], [], [])
    with reading(folder), os.scandir(folder) as entries:
        for entry in entries:
            if not is_hidden(entry.name):
                _group(found, entry).append(entry.name)
    for group in found:
        group.sort()
    return found


def is_picture(name: str) -> bool:
    return name.lower().endswith(PICTURES)


def is_unread(name: str) -> bool:
    """Whether it is a picture as telephones, cameras and drawing programs keep them, which nothing here decodes."""
    return name.lower().endswith(UNREAD)


def only_unread(names: Iterable[str]) -> str:
    """What a place holds that has such files and no others, and what to do."""
    return f"no pictures that can be read, only such of other kinds ({listed(names)}): {CONVERT}"


def is_hidden(name: str) -> bool:
    return name.startswith(".") or name.lower() in LITTER


def pictures(names: Iterable[str]) -> list[str]:
    return [name for name in names if is_picture(name)]


def _group(found: Listing, entry: os.DirEntry[str]) -> list[str]:
    try:
        return found.folders if entry.is_dir() else found.files if entry.is_file() else found.others
    except OSError:  # a link that leads to itself
        return found.others
