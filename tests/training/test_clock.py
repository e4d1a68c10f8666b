"""Time spent, time spent waiting, pictures a second."""

import time

import pytest
import torch

from patchwords.training.clock import Clock, peak


class Hands:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def hands(monkeypatch: pytest.MonkeyPatch) -> Hands:
    found = Hands()
    monkeypatch.setattr(time, "monotonic", found)
    return found


def test_speed_and_waiting_are_since_the_last_lap(hands: Hands) -> None:
    clock = Clock(before=0.0)
    with clock.waiting():
        hands.now += 1
    hands.now += 3
    clock.images += 80
    assert clock.lap() == (20.0, 0.25)
    hands.now += 2
    clock.images += 10
    assert clock.lap() == (5.0, 0.0)


def test_a_lap_without_time_or_pictures_is_no_division_by_zero(hands: Hands) -> None:
    clock = Clock(before=0.0)
    speed, waiting = clock.lap()
    assert speed > 0
    assert waiting == 0
    clock.images += 5
    assert clock.lap()[0] > 0


def test_seconds_are_those_before_and_those_since(hands: Hands) -> None:
    clock = Clock(before=60.0)
    hands.now += 5
    clock.lap()
    hands.now += 5
    assert clock.seconds() == 70.0


def test_a_checkpoint_is_due_after_so_many_minutes(hands: Hands) -> None:
    clock = Clock(before=500.0)
    hands.now += 119
    assert not clock.due(2.0)
    hands.now += 1
    assert clock.due(2.0)
    hands.now += 1
    clock.saved(since=hands.now - 1)
    assert not clock.due(2.0)


def test_checkpoints_that_take_long_are_written_less_often(hands: Hands) -> None:
    clock = Clock(before=0.0)
    hands.now += 30
    clock.saved(since=hands.now - 30)
    hands.now += 20 * 30 - 1
    assert not clock.due(1.0)
    hands.now += 1
    assert clock.due(1.0)


def test_the_most_memory_in_use_is_in_bytes() -> None:
    assert 50 << 20 < peak(torch.device("cpu")) < 1 << 40
