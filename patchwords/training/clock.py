"""Time spent, time spent waiting for data, pictures seen, memory used."""

import resource
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch


class Clock:
    """Seconds in all, `before` those of this process; pictures and waiting since the last lap."""

    def __init__(self, before: float):
        self.before = before
        self.start = self.lapped = self.kept = time.monotonic()
        self.waited, self.images = 0.0, 0

    @contextmanager
    def waiting(self) -> Iterator[None]:
        start = time.monotonic()
        yield
        self.waited += time.monotonic() - start

    def lap(self) -> tuple[float, float]:
        """Pictures a second and the share of time spent waiting, since the last lap."""
        passed = max(time.monotonic() - self.lapped, 1e-9)
        speed, waiting = self.images / passed, self.waited / passed
        self.lapped, self.waited, self.images = time.monotonic(), 0.0, 0
        return max(speed, 1e-9), waiting

    def due(self, minutes: float) -> bool:
        return time.monotonic() - self.kept >= 60 * minutes

    def saved(self) -> None:
        self.kept = time.monotonic()

    def seconds(self) -> float:
        """Of the whole run, those before a resume with them."""
        return self.before + time.monotonic() - self.start


def peak(device: torch.device) -> int:
    """The most bytes in use so far: of the GPU, or of this process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
