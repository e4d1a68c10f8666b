"""Time spent, time spent waiting for data, pictures seen, memory used."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch

SLOW, SHARE = 1.0, 20  # a checkpoint of more than a second is followed by twenty times as long without one


class Clock:
    """Seconds in all, `before` those of this process; pictures and waiting since the last lap."""

    def __init__(self, before: float):
        self.before = before
        self.start = self.lapped = self.kept = time.monotonic()
        self.waited, self.images = 0.0, 0
        self.took = 0.0  # the last checkpoint

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
        """Whether a checkpoint is to be written: after so many minutes, and slow ones seldom enough."""
        return time.monotonic() - self.kept >= max(60 * minutes, SHARE * self.took if self.took > SLOW else 0.0)

    def saved(self, since: float) -> None:
        self.kept = time.monotonic()
        self.took = self.kept - since

    def seconds(self) -> float:
        """Of the whole run, those before a resume with them."""
        return self.before + time.monotonic() - self.start


def peak(device: torch.device) -> int:
    """The most bytes in use so far: of the GPU, or of this process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    if sys.platform == "win32":
        return 0  # not told there
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
