"""MANIFEST.json: the length and SHA-256 of every file of a checkpoint, and of itself; written last, believed first.

A flipped bit in a safetensors file would load silently, so nothing is read that does not hash to what is written here.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchwords import settings
from patchwords.errors import ModelError, UsageError
from patchwords.training.run import durable

NAME = "MANIFEST.json"
FORMAT = 1  # of the whole checkpoint; later versions go on reading the earlier ones


class DamagedError(ModelError):
    """A checkpoint that is not what was written."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """What a file must be."""

    bytes: int
    sha256: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Manifest:
    """The step after which a checkpoint was made, and its files by name."""

    format: int
    step: int
    files: dict[str, Entry]


def write(folder: Path, step: int, names: Iterable[str]) -> None:
    """Flushes the named files of a folder to the disk, lists them, and flushes the list."""
    files = {}
    for name in names:
        durable.sync(folder / name)
        files[name] = {"bytes": (folder / name).stat().st_size, "sha256": _sha256(folder / name)}
    durable.create(folder / NAME, _render({"format": FORMAT, "step": step, "files": files}))
    durable.sync(folder)


def verify(folder: Path) -> Manifest:
    """Reads and hashes every file; what differs in any way is a DamagedError."""
    manifest = _read(folder)
    for name, promised in manifest.files.items():
        file = folder / name
        try:
            size, digest = file.stat().st_size, _sha256(file)
        except OSError as error:
            raise DamagedError(f"{folder.name} is damaged: {name} cannot be read ({error.strerror})") from error
        if size != promised.bytes:
            raise DamagedError(f"{folder.name} is damaged: {name} has {size} bytes, not {promised.bytes}")
        if digest != promised.sha256:
            raise DamagedError(f"{folder.name} is damaged: the SHA-256 of {name} is not the one it was written with")
    return manifest


def seal(folder: Path) -> str:
    """The SHA-256 of the manifest itself, and so of everything it vouches for."""
    try:
        return _sha256(folder / NAME)
    except OSError as error:
        raise DamagedError(f"{folder.name} is damaged: {NAME} cannot be read ({error.strerror})") from error


def _read(folder: Path) -> Manifest:
    """The manifest, once it is sure that not a bit of it has changed."""
    try:
        data = (folder / NAME).read_bytes()
        table = json.loads(data)
        whole = isinstance(table, dict) and _render({key: table[key] for key in table if key != "sha256"}) == data
    except OSError as error:
        raise DamagedError(f"{folder.name} is damaged: {NAME} cannot be read ({error.strerror})") from error
    except (ValueError, RecursionError):
        whole = False
    if not whole:
        raise DamagedError(f"{folder.name} is damaged: {NAME} is not what was written")
    del table["sha256"]
    return _structured(folder, table)


def _structured(folder: Path, table: Mapping[str, Any]) -> Manifest:
    format = table.get("format")
    if type(format) is not int or format > FORMAT:
        raise ModelError(
            f"{folder} is a checkpoint of format {format}, and {FORMAT} is the newest known here: "
            "it was written by a newer patchwords, so update this one"
        )
    try:
        manifest = settings.read(table, Manifest)
    except UsageError as error:
        raise DamagedError(f"{folder.name} is damaged: {NAME}: {error}") from None
    if strange := [name for name in manifest.files if Path(name).name != name]:
        raise DamagedError(f"{folder.name} is damaged: {NAME} names {strange[0]!r}, which is no file of the folder")
    return manifest


def _render(table: Mapping[str, Any]) -> bytes:
    """The one way to write a table: its own hash in it, so that a reader can write it again and compare every byte."""
    sha256 = hashlib.sha256(json.dumps(table).encode()).hexdigest()
    return (json.dumps({**table, "sha256": sha256}, indent=2) + "\n").encode()


def _sha256(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
