"""Archives of others, walked member by member: plain files with harmless names come out, anything else is refused.

Nothing is extracted by the archive's own rules: no links, no devices, no `..`, no absolute names, and not without end.
"""

import gzip
import os
import secrets
import shutil
import stat
import tarfile
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from patchwords.data.sources.guard import Guard, most_unpacked, too_much
from patchwords.data.sources.names import printable
from patchwords.data.sources.reading import reading
from patchwords.errors import DataError, ResourceError

SUFFIXES = (".tar", ".tar.gz", ".tgz", ".zip")
MOST_MEMBERS = 20_000_000
MOST_BYTES = 1 << 40
LONGEST_NAME = 1024  # bytes of a whole name
LONGEST_PART = 255  # bytes of a folder's or file's name
CHUNK = 1 << 20


@dataclass(frozen=True)
class Member:
    """A plain file in an archive; its content can be had until the next one is asked for."""

    archive: Path
    name: str  # harmless, with / between folders
    size: int
    offset: int  # where the content begins, in a tar that is not packed
    stream: Guard | IO[bytes]

    def chunks(self) -> Iterator[bytes]:
        """The content in pieces, exactly as long as announced."""
        left = self.size
        while left:
            with reading(self.archive):
                chunk = self.stream.read(min(left, CHUNK))
            if not chunk:
                raise DataError(f"{self.archive} ends within {printable(self.name)}, {left} bytes early: get it anew")
            left -= len(chunk)
            yield chunk

    def read(self, most: int) -> bytes:
        """The whole content, if it is no longer than that."""
        if self.size > most:
            raise DataError(f"{self.archive}: {printable(self.name)} has {self.size} bytes, more than {most}: refused")
        return b"".join(self.chunks())


def is_archive(name: str) -> bool:
    return name.lower().endswith(SUFFIXES)


def walk(path: Path) -> Iterator[Member]:
    """The plain files of a tar (packed or not) or zip archive, in its order."""
    members = _zip(path) if path.suffix.lower() == ".zip" else _tar(path)
    total = 0
    with reading(path):
        for count, member in enumerate(members, 1):
            total += member.size
            if count > MOST_MEMBERS or total > MOST_BYTES:
                raise DataError(f"{path} holds more than {MOST_MEMBERS} files or {MOST_BYTES} bytes: unpack it by hand")
            yield member


def unpack(archives: Iterable[Path], folder: Path) -> None:
    """Archives into one new folder, and other files beside their contents; whole or not at all."""
    aside = folder.with_name(f".{folder.name}-{secrets.token_hex(4)}")
    try:
        aside.mkdir(parents=True)
        for path in archives:
            if is_archive(path.name):
                for member in walk(path):
                    _write(path, member, aside)
            else:
                shutil.copyfile(path, aside / path.name)
        _rename(aside, folder)
    except OSError as error:
        raise ResourceError(f"{folder} cannot be written ({error.strerror}): make room there, and try again") from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _rename(aside: Path, folder: Path) -> None:
    try:
        os.replace(aside, folder)
    except OSError:
        if not folder.is_dir():  # else another process was faster, and had the same files
            raise


def _write(path: Path, member: Member, folder: Path) -> None:
    target = folder / member.name
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("xb") as file:
            for chunk in member.chunks():
                file.write(chunk)
    except (FileExistsError, NotADirectoryError) as error:
        raise DataError(f"{path} holds {printable(member.name)} twice, or as file and folder: not unpacked") from error


def _tar(path: Path) -> Iterator[Member]:
    with path.open("rb") as raw:
        packed = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        with gzip.GzipFile(fileobj=raw) if packed else raw as file:
            guard = Guard(file, path)
            with tarfile.open(fileobj=guard, mode="r:") as archive:  # type: ignore[call-overload]
                while (member := archive.next()) is not None:
                    archive.members.clear()  # they would fill the memory
                    if not member.isdir():
                        yield _tar_member(path, member, guard)
                guard.seek(archive.offset)
                if guard.read(tarfile.BLOCKSIZE).strip(b"\0"):  # tarfile takes a damaged header for the end
                    raise DataError(f"{path} is damaged at byte {archive.offset}: get it anew")
                while guard.read(CHUNK):  # to the end, where a packed file has its checksum
                    pass


def _tar_member(path: Path, member: tarfile.TarInfo, guard: Guard) -> Member:
    if member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE) or member.issparse() or member.size < 0:
        raise DataError(f"{path} holds {printable(member.name)}, which is a link or no plain file: not unpacked")
    guard.seek(member.offset_data)
    return Member(path, _harmless(path, member.name), member.size, member.offset_data, guard)


def _zip(path: Path) -> Iterator[Member]:
    with zipfile.ZipFile(path) as archive:
        if sum(member.file_size for member in archive.infolist()) > most_unpacked(path):
            raise DataError(too_much(path))
        for member in archive.infolist():
            kind = stat.S_IFMT(member.external_attr >> 16)
            plain = member.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) and not member.flag_bits & 1
            if kind not in (0, stat.S_IFREG, stat.S_IFDIR) or not plain:
                raise DataError(f"{path} holds {printable(member.filename)}, which is a link or locked: not unpacked")
            if not member.is_dir():
                with archive.open(member) as file:
                    yield Member(path, _harmless(path, member.filename), member.file_size, -1, file)


def _harmless(path: Path, name: str) -> str:
    """The name of a member, if it stays inside the folder where it is unpacked."""
    parts = [part for part in name.split("/") if part not in ("", ".")]
    absolute = name.startswith("/") or name[1:2] == ":"
    odd = any(character in name for character in "\\\0") or ".." in parts or not parts
    lengths = [len(part.encode("utf-8", "surrogatepass")) for part in parts]
    if absolute or odd or max(lengths) > LONGEST_PART or sum(lengths) > LONGEST_NAME:
        raise DataError(f"{path} holds {printable(name)[:100]!r}, a name that could lead elsewhere: not unpacked")
    return "/".join(parts)
