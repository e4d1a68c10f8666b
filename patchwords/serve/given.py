"""What the IMAGE words of a command mean: files, folders, patterns, and - for a picture or a list that is piped in."""

import difflib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from patchwords.data.broken import Damage
from patchwords.data.picture import FORMATS
from patchwords.data.sources.listing import is_hidden, is_picture, is_unread, listing, only_unread, pictures
from patchwords.data.sources.names import Names, printable
from patchwords.data.sources.source import Source
from patchwords.errors import DataError, UsageError
from patchwords.serve.raw import read_file

PIPE = "-"
MOST_COMPARED = 10_000  # names of a folder among which the nearest is looked for
TEXT = set(range(32, 256)) | set(b"\0\t\n\r")  # bytes that a list of paths is made of


class Paths(Source):
    """Files by their paths, and what was piped in, whose path is empty."""

    def __init__(self, paths: Iterable[str], piped: bytes = b""):
        self.paths = Names(paths)
        self.piped = piped
        self.labels = np.zeros(len(self.paths), dtype=np.int64)  # nobody knows them

    def picture(self, index: int) -> bytes:
        path = self.paths[index]
        return read_file(path) if path else self.piped

    def name(self, index: int) -> str:
        return printable(self.paths[index]) or "stdin"

    def size(self, index: int) -> int:
        return os.path.getsize(self.paths[index]) if self.paths[index] else len(self.piped)


@dataclass(frozen=True, kw_only=True)
class Given:
    """The pictures that are meant, each once, and what was found to be broken on the way to them."""

    source: Paths
    damages: tuple[Damage, ...]


def read(words: Sequence[str], stdin: Callable[[], bytes]) -> Given:
    """The pictures that the words mean, in their order; a folder's and a pattern's are sorted."""
    gathering = _Gathering()
    for word in dict.fromkeys(words):
        if word == PIPE:
            gathering.pipe(stdin())
        else:
            gathering.take(word)
    if not gathering.paths and not gathering.damages:
        raise UsageError("there are no pictures to predict: name files or folders")
    return Given(source=Paths(gathering.paths.values(), gathering.piped), damages=tuple(gathering.damages))


def is_like_a_picture(data: bytes) -> bool:
    """Whether bytes begin as one of the formats does; a list might begin with the letters of a bitmap, BM."""
    starts = (b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"GIF87a", b"GIF89a", b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
    if data.startswith(starts):
        return True
    return (data[:4], data[8:12]) == (b"RIFF", b"WEBP") or (data[:2], data[6:10]) == (b"BM", b"\0\0\0\0")


class _Gathering:
    """Paths in the order they come, each file once however it is called."""

    def __init__(self) -> None:
        self.paths: dict[str, str] = {}
        self.damages: list[Damage] = []
        self.piped = b""
        self.folders: dict[str, str] = {}  # their real paths
        self.unread: list[str] = []  # pictures of kinds that nothing here decodes, passed by in folders

    def take(self, word: str) -> None:
        """A word of the command line; what is nowhere is a slip, and refused before any work is done."""
        if os.path.isdir(word):
            passed = len(self.unread)
            if not self._below([word]):
                unread = sorted(self.unread[passed:])
                none = only_unread(unread) if unread else "no pictures"
                self.damages.append(Damage(printable(word), f"the folder holds {none}"))
        elif os.path.lexists(word):  # a shell's pattern names pipes and links that lead nowhere too: broken, later
            self._add(word)
        elif any(map(_has_wildcard, Path(word).parts)):
            self._match(word)
        else:
            raise UsageError(f"{printable(word) or repr(word)} does not exist{_nearest(word)}")

    def pipe(self, data: bytes) -> None:
        """A picture, or paths a line; between zero bytes where there are any. What is missing is found out later."""
        if is_like_a_picture(data):
            self.piped = data
            self.paths[""] = ""
            return
        data = data.removeprefix(b"\xef\xbb\xbf")
        lines = data.split(b"\0") if b"\0" in data else [line.removesuffix(b"\r") for line in data.split(b"\n")]
        found = [os.fsdecode(line) for line in lines if line.strip()]
        if not found:
            raise UsageError("nothing came through stdin: pipe in a picture, or a list of paths")
        if not TEXT.issuperset(set(data)) and not any(map(os.path.lexists, found)):
            raise UsageError(f"what came through stdin is neither a picture ({', '.join(FORMATS)}) nor a list of paths")
        for path in found:
            if os.path.isdir(path):
                self._below([path])
            else:
                self._add(path)

    def _add(self, path: str) -> None:
        folder, name = os.path.split(path)
        if folder not in self.folders:
            self.folders[folder] = os.path.realpath(folder)
        self.paths.setdefault(os.path.join(self.folders[folder], name), path)

    def _below(self, folders: Sequence[str], files: Sequence[str] = ()) -> bool:
        """Takes all pictures below folders, and these files; whether there was anything at all."""
        before = len(self.damages)
        found = sorted({*files, *self._walk(folders)})
        for path in found:
            self._add(path)
        return bool(found) or len(self.damages) > before

    def _walk(self, folders: Sequence[str]) -> Iterator[str]:
        """Pictures by their endings; each folder is read once, so that links in a ring come to an end."""
        seen, waiting = set(), [*folders]
        while waiting:
            current = waiting.pop()
            if (real := os.path.realpath(current)) in seen:
                continue
            seen.add(real)
            try:
                here = listing(current)
            except DataError:
                self.damages.append(Damage(printable(current), "the folder cannot be read"))
                continue
            waiting += [os.path.join(current, name) for name in here.folders]
            self.unread += [os.path.join(current, name) for name in here.files if is_unread(name)]
            yield from (os.path.join(current, name) for name in pictures(here.files + here.others))

    def _match(self, pattern: str) -> None:
        """The pictures, and those below the folders, that a pattern means; as a folder's, known by their endings."""
        found = _matches(pattern)
        folders = [path for path in found if os.path.isdir(path)]
        files = set(filter(is_picture, found)).difference(folders)
        if not self._below(folders, [*files]):
            unread = list(filter(is_unread, found))
            none = "nothing that ends as a picture does" if found else "nothing"
            what = only_unread(unread) if unread else none
            raise UsageError(f"{printable(pattern)} is no file, and as a pattern it matches {what}")


def _has_wildcard(text: str) -> bool:
    return re.search(r"[*?]|\[.+\]", text) is not None


def _matches(pattern: str) -> list[str]:
    """Paths in order; ** is any number of folders, hidden ones and links to folders left out."""
    parts = Path(os.path.expanduser(pattern)).parts
    first = next(number for number, part in enumerate(parts) if _has_wildcard(part))
    base = Path(*parts[:first])
    wild = [part if part == "**" else re.sub(r"\*\*+", "*", part) for part in parts[first:]]
    secret = any(part.startswith(".") for part in wild)
    found = base.glob("/".join(wild))
    return sorted(
        str(path) for path in found if secret or not any(is_hidden(part) for part in path.relative_to(base).parts)
    )


def _nearest(word: str) -> str:
    """The name in the same folder that may have been meant."""
    folder, name = os.path.split(word)
    try:
        here = listing(folder or ".")
    except DataError:
        return ": give files, folders, patterns in quotes, or - for stdin"
    names = [*here.folders, *here.files][:MOST_COMPARED]
    near = difflib.get_close_matches(name, names, n=1)
    return f"; did you mean {printable(os.path.join(folder, near[0]))}?" if near else ": look how it is spelled"
