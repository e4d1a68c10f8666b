"""A pass over many batches against the clock: the whole of it, and its later part, when every queue has settled."""

import time
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import torch

from patchwords.bench.measure import finish
from patchwords.errors import UsageError

SETTLED = 1 / 3  # of the pass is over by then


@dataclass(frozen=True, kw_only=True, slots=True)
class Pace:
    """Pictures a second: from the start of the loader to the last step, and over the last two thirds of the steps."""

    whole: float
    steady: float
    steps: int


def paced(
    batches: Callable[[], Generator[Any]],
    step: Callable[[Any, int], object],
    *,
    batch: int,
    steps: int,
    device: torch.device,
) -> Pace:
    """Takes that many steps; the device is waited for at the mark and at the end alone."""
    if steps < 3:
        raise UsageError(f"{steps} steps have no steady part: take more pictures, or a smaller batch")
    mark, passed = max(1, round(steps * SETTLED)), 0
    finish(device)
    start = middle = time.perf_counter()
    with closing(batches()) as stream:
        for loaded in stream:
            step(loaded, passed)
            passed += 1
            if passed == mark:
                finish(device)
                middle = time.perf_counter()
            if passed == steps:
                break
        finish(device)
        end = time.perf_counter()
    if passed < steps:
        raise UsageError(f"the loader gave {passed} batches of {steps}")
    return Pace(whole=batch * steps / (end - start), steady=batch * (steps - mark) / (end - middle), steps=steps)
