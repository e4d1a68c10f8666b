"""Names in memory and on paper: a million paths in two arrays, and texts that any terminal and file can take."""

import re
from collections.abc import Iterable

import numpy as np

UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
LONGEST = 64  # letters of a data set's short name


class Names:
    """Many texts in one block of bytes: less memory than a list, and nothing for forked workers to copy."""

    def __init__(self, names: Iterable[str]):
        encoded = [name.encode("utf-8", "surrogatepass") for name in names]
        self.ends = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
        self.block = b"".join(encoded)

    def __len__(self) -> int:
        return len(self.ends) - 1

    def __getitem__(self, index: int) -> str:
        start, stop = self.ends[index : index + 2].tolist()
        return self.block[start:stop].decode("utf-8", "surrogatepass")


def printable(name: str) -> str:
    """A name that can be shown and stored anywhere: line ends, terminal codes and bytes that are no text are spelt."""
    return UNPRINTABLE.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), name)


def short(name: str) -> str:
    """What to call a data set where a folder is named after it: letters, digits, dots, underscores and hyphens."""
    return re.sub(r"[^\w.]+", "-", name)[:LONGEST].strip("-.") or "data"


def listed(names: Iterable[str], most: int = 3) -> str:
    """The first few of many names, for a sentence."""
    names = [printable(name) for name in names]
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
