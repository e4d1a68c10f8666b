"""Memory that several processes share, in slots: what a process makes travels through one instead of through its pipe.

It has no name, so it is gone with the last process that holds it, however that one ends.
"""

import mmap
import os
import pickle
import sys
import tempfile
import weakref
from multiprocessing.reduction import DupFd
from typing import Any, NamedTuple

import numpy as np

ALIGNED = 64  # bytes: where an array begins
SMALL = 1 << 12  # bytes of an array that is not worth a slot, which it could keep from being used again


class Parcel(NamedTuple):
    """A result without its large arrays, and where in its slot those lie: (start, stop) each."""

    content: bytes
    places: list[tuple[int, int]]


class Arena:
    """So many slots of `room` bytes; one who leads gives them out and reads, the others write."""

    def __init__(self, slots: int, room: int):
        self.room = -(-room // mmap.PAGESIZE) * mmap.PAGESIZE
        self.free = list(range(slots))
        self.file = _nameless(max(mmap.PAGESIZE, slots * self.room))
        self.memory = mmap.mmap(self.file, 0)

    def __del__(self) -> None:
        os.close(self.file)  # the mapping stays as long as anything that was read from it

    def __getstate__(self) -> dict[str, Any]:
        """For a process that is not forked: the file travels, as a number of its own there."""
        return {"room": self.room, "file": DupFd(self.file)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.room, self.free = state["room"], []
        self.file = state["file"].detach()
        self.memory = mmap.mmap(self.file, 0)

    def take(self) -> int | None:
        """A slot that nobody uses, if there is one."""
        return self.free.pop() if self.free else None

    def write(self, slot: int | None, result: object) -> Parcel:
        """The result's large arrays into the slot, as far as there is room; what finds none stays in the parcel."""
        places: list[tuple[int, int]] = []
        start = (slot or 0) * self.room
        stop = start + self.room

        def place(buffer: pickle.PickleBuffer) -> bool:
            nonlocal start
            with buffer.raw() as raw:
                end = start + raw.nbytes
                if slot is None or raw.nbytes < SMALL or end > stop:
                    return True
                self.memory[start:end] = raw
            places.append((start, end))
            start = -(-end // ALIGNED) * ALIGNED
            return False

        return Parcel(pickle.dumps(result, protocol=5, buffer_callback=place), places)

    def read(self, slot: int | None, parcel: Parcel) -> Any:
        """The result, its arrays in the slot itself: it is given back when none of them is left."""
        if slot is None:
            return pickle.loads(parcel.content)
        whole = np.frombuffer(self.memory, np.uint8)
        weakref.finalize(whole, self.free.append, slot).atexit = False
        view = whole.data
        return pickle.loads(parcel.content, buffers=[view[start:stop] for start, stop in parcel.places])


def _nameless(size: int) -> int:
    """The number of a file that has no name, in memory where the system knows such files."""
    if sys.platform == "linux":
        file = os.memfd_create("patchwords")
    else:
        with tempfile.TemporaryFile() as unnamed:
            file = os.dup(unnamed.fileno())
    os.ftruncate(file, size)  # no memory is taken before it is written to
    return file
