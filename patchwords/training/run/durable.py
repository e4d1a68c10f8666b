"""Files that outlive a power cut: written aside, flushed to the disk, renamed; the old or the new, never neither."""

import errno
import os
import secrets
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from patchwords.errors import ResourceError, refuse_below_file

CHUNK = 1 << 20


def sync(path: Path) -> None:
    """Waits until a file's bytes, or a folder's entries, are on the disk."""
    if sys.platform == "win32" and path.is_dir():
        return  # folders cannot be opened there, and their entries need no flushing
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def forget(path: Path) -> None:
    """Lets go of what memory holds of a synced file, so that the next reading shows what is on the disk."""
    if sys.platform == "linux":
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def create(path: Path, data: bytes) -> None:
    """A new file whose bytes are on the disk; its entry is there when the folder is synced."""
    with path.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def replace(path: Path, data: bytes) -> None:
    """The file with new contents."""
    new = aside(path)
    with refusals(path, len(data)):
        try:
            create(new, data)
            os.replace(new, path)
            sync(path.parent)
        finally:
            new.unlink(missing_ok=True)


def aside(path: Path) -> Path:
    """A hidden name beside a file, which `clean` finds if nobody comes to rename it."""
    return path.with_name(f".{path.name}-{secrets.token_hex(4)}.aside")


def clean(folder: Path, pattern: str = ".*.aside") -> None:
    """Removes what a process that was killed had not finished; only the owner of the folder may do so."""
    for leftover in folder.glob(pattern):
        remove(leftover)


def remove(path: Path) -> None:
    """A file, or a folder with all that is in it."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def occupy(path: Path, needed: int) -> None:
    """Takes this many bytes for a moment, so that quotas and limits speak up too; an OSError if there are not."""
    if (free := shutil.disk_usage(path.parent).free) < needed:
        raise OSError(errno.ENOSPC, f"{free:,} bytes are free")
    try:
        with path.open("xb") as file:
            _allocate(file, needed)
    finally:
        path.unlink(missing_ok=True)


def _allocate(file: IO[bytes], needed: int) -> None:
    if sys.platform == "linux" and needed:
        try:
            os.posix_fallocate(file.fileno(), 0, needed)
            return
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS):  # file systems that cannot reserve
                raise
    zeros = bytes(CHUNK)
    for start in range(0, needed, CHUNK):
        file.write(zeros[: needed - start])
    file.flush()
    os.fsync(file.fileno())


@contextmanager
def refusals(path: Path, needed: int = 0) -> Iterator[None]:
    """Says where, and how much is needed, when the disk refuses."""
    try:
        yield
    except OSError as error:
        refuse_below_file(path)
        room = f"; {needed:,} bytes are needed there" if needed else ""
        reason = error.strerror or error
        raise ResourceError(
            f"{path} could not be written ({reason}){room}: make room, or choose another place with --out"
        ) from error
