"""How long something takes and how much memory: warmed up, in turns with its rivals, each round a median's vote."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

from patchwords.settings import at_least

Call = Callable[[int], object]  # given its number, so that the inputs can change from call to call


@dataclass(frozen=True, kw_only=True, slots=True)
class Effort:
    """So many rounds, in each of which everybody works for about so many seconds."""

    rounds: int = 12
    seconds: float = 0.3
    warm: int = 3  # calls before anything counts

    def __post_init__(self) -> None:
        at_least(1, rounds=self.rounds, warm=self.warm)


@dataclass(frozen=True)
class Entrant:
    """Somebody who does the work, ready to: who and how, what to call, and what it took to get there."""

    who: str
    how: str
    precision: str
    call: Call
    preparing: float  # seconds until the first answer: building, compiling, capturing
    memory: int | None  # bytes at most during a call, weights and whatever else it keeps with them; None: not told
    told: dict[str, float] = field(default_factory=dict)  # what was found out on the way


def entered(who: str, how: str, precision: str, device: torch.device, make: Callable[[], Call]) -> Entrant:
    """Makes it and lets it work a few times."""
    before = allocated(device)
    start = time.perf_counter()
    call = make()
    call(0)
    finish(device)
    preparing = time.perf_counter() - start
    call(1)  # whatever is only done the first time is done
    return Entrant(who, how, precision, call, preparing, peak(call, device, before))


def in_turns(calls: Sequence[Call], device: torch.device, effort: Effort) -> list[NDArray[np.float64]]:
    """Seconds of one call, for each round: A B A B …, so that a device that slows down slows everybody."""
    counts = []
    for call in calls:
        for number in range(effort.warm):
            call(number)
        once = timed(call, 1, device)
        counts.append(max(1, round(effort.seconds / once)))
    found = np.array(
        [[timed(call, count, device) for call, count in zip(calls, counts, strict=True)] for _ in range(effort.rounds)]
    )
    return list(found.T)


def timed(call: Call, count: int, device: torch.device) -> float:
    """Seconds of one of so many calls: a GPU's own, since it works on while nobody waits; else the clock's."""
    if device.type != "cuda":
        start = time.perf_counter()
        for number in range(count):
            call(number)
        finish(device)
        return (time.perf_counter() - start) / count
    finish(device)
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    first.record()
    for number in range(count):
        call(number)
    last.record()
    last.synchronize()
    return float(first.elapsed_time(last)) / 1000 / count


def waited(call: Call, count: int, device: torch.device) -> float:
    """Seconds from asking to having the answer, the median of so many."""
    found = []
    for number in range(count):
        finish(device)
        start = time.perf_counter()
        call(number)
        finish(device)
        found.append(time.perf_counter() - start)
    return float(np.median(found))


def finish(device: torch.device) -> None:
    """Waits for what the device still does."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()


def allocated(device: torch.device) -> int:
    return torch.cuda.memory_allocated(device) if device.type == "cuda" else 0


def peak(call: Call, device: torch.device, before: int) -> int | None:
    """The most bytes during a call, above what was in use `before`; told by a GPU only."""
    if device.type != "cuda":
        return None
    finish(device)
    torch.cuda.reset_peak_memory_stats(device)
    call(2)
    finish(device)
    return torch.cuda.max_memory_allocated(device) - before
