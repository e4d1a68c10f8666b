"""The batcher: who waits for whom, how many go together, and that no answer depends on its neighbours."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future

import numpy as np
import pytest

from patchwords.data.sources.source import Pixels
from patchwords.errors import ModelError, UsageError
from patchwords.serve.queue.batcher import Batcher
from patchwords.serve.queue.turns import Turns

Sizes = list[int]


def picture(number: int) -> Pixels:
    return np.full((3, 2, 2), number, dtype=np.uint8)


class Asked:
    """A batcher on a thread of its own, whose model tells the number that a picture is made of."""

    def __init__(self, most: int = 4, wait: float = 0.0):
        self.turns, self.sizes, self.gate = Turns(), Sizes(), threading.Event()
        self.gate.set()
        heard: Sizes = []
        self.heard = heard
        self.batcher: Batcher[int] = Batcher(
            self.answer, self.turns.changed, most=most, wait=wait, heard=lambda many, _: heard.append(many)
        )
        self.turns.add(self.batcher)
        self.turns.start()

    def answer(self, images: Sequence[Pixels]) -> list[int]:
        self.gate.wait(5)
        self.sizes.append(len(images))
        numbers = [int(image.max()) for image in images]
        if 13 in numbers:
            raise ModelError("thirteen")
        return numbers

    def put(self, number: int, expected: bool = False) -> "Future[int]":
        answer: Future[int] = Future()
        if not expected:
            self.batcher.expect()
        self.batcher.put(picture(number), answer)
        return answer


@pytest.fixture
def begin() -> Iterator[Callable[..., Asked]]:
    every: list[Asked] = []

    def begin(**options: float) -> Asked:
        every.append(Asked(**options))  # type: ignore[arg-type]
        return every[-1]

    yield begin
    for asked in every:
        asked.gate.set()
        asked.turns.stop()


def test_what_waits_while_the_model_works_goes_together(begin: Callable[..., Asked]) -> None:
    asked = begin(most=4)
    asked.gate.clear()
    first = asked.put(0)
    while asked.batcher.waiting:
        time.sleep(0.001)
    others = [asked.put(number) for number in range(1, 7)]
    asked.gate.set()
    assert [answer.result(5) for answer in (first, *others)] == list(range(7))
    assert asked.sizes == asked.heard == [1, 4, 2]


def test_a_single_client_waits_for_nobody(begin: Callable[..., Asked]) -> None:
    asked = begin(wait=1.0)
    start = time.monotonic()
    assert [asked.put(number).result(5) for number in range(3)] == [0, 1, 2]
    assert time.monotonic() - start < 0.5


def test_a_picture_waits_for_those_that_are_being_decoded(begin: Callable[..., Asked]) -> None:
    asked = begin(wait=1.0)
    asked.batcher.expect()
    first = asked.put(1)
    time.sleep(0.05)
    assert not first.done()
    second = asked.put(2, expected=True)
    assert (first.result(0.5), second.result(0.5)) == (1, 2)
    assert asked.sizes == [2]


def test_it_does_not_wait_for_one_that_turned_out_to_be_broken(begin: Callable[..., Asked]) -> None:
    asked = begin(wait=1.0)
    asked.batcher.expect()
    answer = asked.put(1)
    asked.batcher.lose()
    assert answer.result(0.5) == 1


def test_it_waits_no_longer_than_it_may(begin: Callable[..., Asked]) -> None:
    asked = begin(wait=0.05)
    asked.batcher.expect()
    start = time.monotonic()
    asked.put(1).result(5)
    assert 0.05 <= time.monotonic() - start < 1
    asked.batcher.lose()


def test_a_full_batch_waits_for_nobody(begin: Callable[..., Asked]) -> None:
    asked = begin(most=2, wait=1.0)
    asked.batcher.expect()
    answers = [asked.put(number) for number in range(2)]
    assert [answer.result(0.5) for answer in answers] == [0, 1]
    asked.batcher.lose()


def test_one_that_cannot_be_answered_takes_nobody_with_it(begin: Callable[..., Asked]) -> None:
    asked = begin()
    asked.gate.clear()
    answers = [asked.put(number) for number in (0, 12, 13, 14)]
    asked.gate.set()
    assert [answers[place].result(5) for place in (0, 1, 3)] == [0, 12, 14]
    with pytest.raises(ModelError, match="thirteen"):
        answers[2].result(5)


def test_a_picture_whose_client_is_gone_is_not_asked_about(begin: Callable[..., Asked]) -> None:
    asked = begin()
    asked.gate.clear()
    first = asked.put(0)
    while asked.batcher.waiting:
        time.sleep(0.001)
    asked.put(1).cancel()
    asked.gate.set()
    assert first.result(5) == 0
    assert asked.put(2).result(5) == 2
    assert asked.sizes == [1, 1]


def test_numbers_that_cannot_be_are_refused() -> None:
    turns = Turns()
    for options, reason in (({"most": 0, "wait": 0.0}, "max-batch 0"), ({"most": 1, "wait": 2.0}, "2000 ms")):
        with pytest.raises(UsageError, match=reason):
            Batcher(lambda images: [], turns.changed, **options)  # type: ignore[arg-type]
