"""What takes longer than a class, one at a time: the lane of examinations, attention maps and health checks."""

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from threading import Condition
from typing import Any, TypeVar

from patchwords.serve.queue.turns import NEVER, Lane, Work

T = TypeVar("T")


class Questions(Lane):
    """Functions that wait for the models' thread, in the order they came."""

    def __init__(self, changed: Condition):
        self.changed = changed
        self.waiting: deque[tuple[Callable[[], Any], Future[Any]]] = deque()

    def put(self, function: Callable[[], T]) -> "Future[T]":
        answer: Future[T] = Future()
        with self.changed:
            self.waiting.append((function, answer))
            self.changed.notify()
        return answer

    def due(self) -> float:
        return 0.0 if self.waiting else NEVER

    def take(self) -> Work:
        return partial(_ask, *self.waiting.popleft())


def _ask(function: Callable[[], Any], answer: "Future[Any]") -> None:
    if answer.set_running_or_notify_cancel():
        try:
            answer.set_result(function())
        except Exception as error:
            answer.set_exception(error)
