"""A pass against the clock."""

import time
from collections.abc import Generator

import pytest
import torch

from patchwords.bench.epoch import paced
from patchwords.errors import UsageError

CPU = torch.device("cpu")


def test_the_steady_part_leaves_out_the_start() -> None:
    closed = []

    def batches() -> Generator[int]:
        try:
            time.sleep(0.2)  # workers that start
            yield from range(100)
        finally:
            closed.append(True)

    seen: list[tuple[int, int]] = []

    def step(loaded: int, number: int) -> None:
        seen.append((loaded, number))
        time.sleep(0.005)

    pace = paced(batches, step, batch=10, steps=9, device=CPU)
    assert seen == [(number, number) for number in range(9)]
    assert closed == [True]
    assert pace.whole < 90 / 0.2
    assert 500 < pace.steady <= 10 / 0.005
    assert pace.steady > 2 * pace.whole


def test_too_few_batches_are_an_error() -> None:
    with pytest.raises(UsageError, match="3 batches of 6"):
        paced(lambda: (number for number in range(3)), lambda *_: None, batch=1, steps=6, device=CPU)


def test_too_few_steps_are_refused() -> None:
    with pytest.raises(UsageError, match="2 steps have no steady part"):
        paced(lambda: (number for number in range(3)), lambda *_: None, batch=1, steps=2, device=CPU)
