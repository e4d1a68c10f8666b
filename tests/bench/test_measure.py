"""Everybody takes turns, a GPU is waited for, and the numbers are those of one call."""

import time

import numpy as np
import pytest
import torch

from patchwords.bench.measure import Effort, entered, in_turns, timed, waited
from patchwords.errors import UsageError

CPU = torch.device("cpu")


def test_everybody_takes_turns() -> None:
    turns: list[str] = []
    calls = [lambda _: turns.append("a"), lambda _: turns.append("b")]
    found = in_turns(calls, CPU, Effort(rounds=3, seconds=1e-9, warm=2))
    assert turns[:6] == ["a", "a", "a", "b", "b", "b"]  # warmed up, and timed once
    assert turns[6:] == ["a", "b"] * 3
    assert [len(seconds) for seconds in found] == [3, 3]


def test_a_slow_one_is_called_less_often_and_counted_by_the_call() -> None:
    counts = {"fast": 0, "slow": 0}

    def slow(number: int) -> None:
        counts["slow"] += 1
        time.sleep(0.01)

    def fast(number: int) -> None:
        counts["fast"] += 1
        time.sleep(0.001)

    first, second = in_turns([slow, fast], CPU, Effort(rounds=3, seconds=0.02, warm=1))
    assert counts["fast"] > 3 * counts["slow"]
    assert 0.01 <= np.median(first) < 0.05
    assert 0.001 <= np.median(second) < 0.01


def test_inputs_change_from_call_to_call() -> None:
    numbers: list[int] = []
    timed(numbers.append, 3, CPU)
    assert numbers == [0, 1, 2]


def test_the_wait_is_that_of_one_call() -> None:
    assert 0.002 <= waited(lambda _: time.sleep(0.002), 3, CPU) < 0.05


def test_what_it_takes_to_get_ready_is_told_apart() -> None:
    def make() -> object:
        time.sleep(0.02)
        return lambda number: None

    entrant = entered("ours", "", "float32", CPU, make)
    assert entrant.preparing >= 0.02
    assert entrant.memory is None  # of a CPU it cannot be told whose it is


def test_no_rounds_are_refused() -> None:
    with pytest.raises(UsageError, match="rounds"):
        Effort(rounds=0)
