"""The models' thread: lanes take turns, what is waiting at the end is done, and nothing comes twice."""

import threading
import time
from collections.abc import Callable

import pytest

from patchwords.serve.queue.questions import Questions
from patchwords.serve.queue.turns import NEVER, Lane, Turns, Work


class Listed(Lane):
    """Work by name, done when it may be."""

    def __init__(self, turns: Turns, name: str, done: list[str], count: int, due: float = 0.0):
        self.name, self.done, self.left, self.moment = name, done, count, due
        turns.add(self)

    def due(self) -> float:
        return self.moment if self.left else NEVER

    def take(self) -> Work:
        self.left -= 1
        return lambda: self.done.append(self.name)


def until(true: Callable[[], bool]) -> None:
    limit = time.monotonic() + 5
    while not true() and time.monotonic() < limit:
        time.sleep(0.002)
    assert true()


def test_lanes_take_turns() -> None:
    turns, done = Turns(), list[str]()
    for name, count in (("a", 4), ("b", 2), ("c", 1)):
        Listed(turns, name, done, count)
    turns.start()
    until(lambda: len(done) == 7)
    turns.stop()
    assert "".join(done) == "abcabaa"


def test_a_lane_that_is_always_full_leaves_every_second_turn_to_questions() -> None:
    turns, done = Turns(), list[str]()
    Listed(turns, "many", done, 100)
    questions = Questions(turns.changed)
    turns.add(questions)
    answers = [questions.put(lambda: len(done)) for _ in range(5)]
    turns.start()
    assert [answer.result(5) for answer in answers] == [1, 2, 3, 4, 5]
    turns.stop()


def test_a_lane_gets_its_turn_when_its_time_comes_and_not_before() -> None:
    turns, done = Turns(), list[str]()
    start = time.monotonic()
    Listed(turns, "soon", done, 1, due=start + 0.1)
    turns.start()
    until(lambda: done == ["soon"])
    assert time.monotonic() - start >= 0.1
    turns.stop()


def test_at_the_end_what_waits_is_left_at_once() -> None:
    turns, done = Turns(), list[str]()
    Listed(turns, "many", done, 10**9)
    turns.start()
    until(lambda: len(done) > 10)
    turns.stop()
    assert not turns.thread.is_alive()
    Turns().stop()  # one that was never started


def test_questions_are_answered_in_order_and_errors_come_back() -> None:
    turns = Turns()
    questions = Questions(turns.changed)
    turns.add(questions)
    turns.start()
    answers = [questions.put(lambda: 1 // 1), questions.put(lambda: 1 // 0), questions.put(threading.current_thread)]
    assert answers[0].result(5) == 1
    with pytest.raises(ZeroDivisionError):
        answers[1].result(5)
    assert answers[2].result(5) is turns.thread
    turns.stop()


def test_a_question_that_nobody_waits_for_is_not_asked() -> None:
    turns, asked = Turns(), list[int]()
    questions = Questions(turns.changed)
    turns.add(questions)
    questions.put(lambda: asked.append(1)).cancel()
    last = questions.put(lambda: 2)
    turns.start()
    assert last.result(5) == 2
    turns.stop()
    assert asked == []
