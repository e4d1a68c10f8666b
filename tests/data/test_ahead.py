"""A thread that works ahead: the same items in the same order, no further ahead than said, and gone when left."""

import threading
import time
from collections.abc import Generator
from contextlib import closing

import pytest

from patchwords.data.ahead import ahead


class Counting:
    """Items, and how far it got."""

    def __init__(self, stop_at: int = 1000) -> None:
        self.made = 0
        self.closed = False
        self.stop_at = stop_at

    def __call__(self, stop: threading.Event) -> Generator[int]:
        try:
            while self.made < self.stop_at:
                self.made += 1
                yield self.made - 1
        finally:
            self.closed = True


def settled(counting: Counting) -> int:
    """How far it gets while nobody takes anything."""
    time.sleep(0.2)
    return counting.made


@pytest.mark.parametrize("depth", [1, 2, 5])
def test_all_items_come_in_order(depth: int) -> None:
    counting = Counting(40)
    assert list(ahead(counting, depth)) == list(range(40))
    assert counting.closed


@pytest.mark.parametrize("depth", [1, 3])
def test_it_is_so_far_ahead_and_no_further(depth: int) -> None:
    counting = Counting()
    with closing(ahead(counting, depth)) as items:
        assert next(items) == 0
        assert settled(counting) == 1 + depth + 1  # taken, waiting, in hand
        assert next(items) == 1
        assert settled(counting) == 2 + depth + 1


def test_no_items_are_an_end() -> None:
    assert list(ahead(Counting(0))) == []


def test_whoever_leaves_early_leaves_no_thread() -> None:
    before, counting = threading.active_count(), Counting()
    for item in ahead(counting):
        if item == 5:
            break
    assert counting.closed
    assert threading.active_count() == before


def test_an_error_comes_after_all_items_before_it() -> None:
    def broken(stop: threading.Event) -> Generator[int]:
        yield 1
        yield 2
        raise ValueError("the third is torn")

    before, items = threading.active_count(), ahead(broken)
    assert [next(items), next(items)] == [1, 2]
    with pytest.raises(ValueError, match="the third is torn"):
        next(items)
    assert threading.active_count() == before


def test_what_waits_for_long_is_told_to_stop() -> None:
    def slow(stop: threading.Event) -> Generator[int]:
        yield 1
        assert stop.wait(30)

    start = time.monotonic()
    with closing(ahead(slow)) as items:
        assert next(items) == 1
    assert time.monotonic() - start < 5
