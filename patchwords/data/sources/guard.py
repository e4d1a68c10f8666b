"""A file that was made by somebody else cannot fill memory or disk, nor lead its reader in circles."""

from os import PathLike, fspath, stat
from typing import Protocol

from patchwords.data.sources.names import printable
from patchwords.errors import DataError

MOST_AT_ONCE = 4 << 20  # bytes of one read: headers are smaller, and contents come in pieces
MOST_BACK = 512  # bytes of one step back
FREE = 64 << 20  # bytes that anything may unpack to
MOST_RATIO = 100  # times its own size that a larger file may unpack to: pictures hardly shrink


class Seekable(Protocol):
    """What is asked of the file behind a guard."""

    def read(self, size: int = ..., /) -> bytes: ...
    def seek(self, place: int, whence: int = ..., /) -> int: ...
    def tell(self) -> int: ...


def most_unpacked(path: str | PathLike[str]) -> int:
    """How many bytes a packed file may become."""
    return max(FREE, MOST_RATIO * stat(path).st_size)


def too_much(path: str | PathLike[str]) -> str:
    """What to say of a file that becomes more."""
    return (
        f"{printable(fspath(path))} unpacks to more than {MOST_RATIO} times its size: pictures do not, so it is refused"
    )


class Guard:
    """A packed file that is read forwards, in small pieces, and up to what `most_unpacked` allows."""

    def __init__(self, file: Seekable, path: str | PathLike[str]):
        self.file = file
        self.name = printable(fspath(path))
        self.most = most_unpacked(path)

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= MOST_AT_ONCE:
            raise DataError(f"{self.name} has a header of {size} bytes: it is damaged, or was made to do harm")
        self._check(self.file.tell() + size)
        return self.file.read(size)

    def seek(self, place: int, whence: int = 0) -> int:
        if whence or place < self.file.tell() - MOST_BACK:
            raise DataError(
                f"{self.name} leads back to where its reader has been: it is damaged, or was made to do harm"
            )
        self._check(place)
        return self.file.seek(place)

    def tell(self) -> int:
        return self.file.tell()

    def _check(self, place: int) -> None:
        if place > self.most + MOST_AT_ONCE:
            raise DataError(too_much(self.name))
