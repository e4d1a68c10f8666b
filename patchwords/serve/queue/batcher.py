"""Pictures that came one by one are asked about together: as many as wait, up to a limit, and soon."""

import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from threading import Condition
from typing import Generic, NamedTuple, TypeVar

from patchwords.data.sources.source import Pixels
from patchwords.errors import UsageError
from patchwords.serve.queue.turns import NEVER, Lane, Work
from patchwords.settings import at_least

T = TypeVar("T")


class Waiting(NamedTuple, Generic[T]):
    """A prepared picture, who wants to know, and since when."""

    seen: Pixels  # (channels, height, width)
    answer: "Future[T]"
    since: float


class Batcher(Lane, Generic[T]):
    """A lane of pictures for one model.

    Nobody is waited for who is not on the way: a picture waits, for `wait` seconds at most, while others are being
    decoded, and a single client's never.
    """

    def __init__(
        self,
        answer: Callable[[Sequence[Pixels]], list[T]],
        changed: Condition,
        *,
        most: int,
        wait: float,
        heard: Callable[[int, float], None] = lambda pictures, seconds: None,
    ):
        at_least(1, **{"max-batch": most})
        if not 0 <= wait <= 1:
            raise UsageError(f"waiting {1000 * wait:g} ms for a batch is not from 0 to 1000: choose max-wait-ms there")
        self.answer, self.changed, self.most, self.wait, self.heard = answer, changed, most, wait, heard
        self.waiting: deque[Waiting[T]] = deque()
        self.coming = 0  # being decoded

    def expect(self) -> None:
        """One is on its way, and comes with `put` or not at all, with `lose`."""
        with self.changed:
            self.coming += 1

    def lose(self) -> None:
        with self.changed:
            self.coming -= 1
            self.changed.notify()

    def put(self, seen: Pixels, answer: "Future[T]") -> None:
        with self.changed:
            self.coming -= 1
            self.waiting.append(Waiting(seen, answer, time.monotonic()))
            self.changed.notify()

    def due(self) -> float:
        if not self.waiting:
            return NEVER
        first = self.waiting[0].since
        return first + self.wait if self.coming and len(self.waiting) < self.most else first

    def take(self) -> Work:
        batch = [self.waiting.popleft() for _ in range(min(self.most, len(self.waiting)))]
        return partial(self._ask, batch)

    def _ask(self, batch: Sequence[Waiting[T]]) -> None:
        if wanted := [one for one in batch if one.answer.set_running_or_notify_cancel()]:
            self._settle(wanted)

    def _settle(self, batch: Sequence[Waiting[T]]) -> None:
        """One picture that cannot be answered is no reason why its neighbours should not be."""
        start = time.monotonic()
        try:
            answers = self.answer([one.seen for one in batch])
        except Exception as error:
            if len(batch) == 1:
                batch[0].answer.set_exception(error)
            else:
                for one in batch:
                    self._settle([one])
            return
        self.heard(len(batch), time.monotonic() - start)
        for one, answer in zip(batch, answers, strict=True):
            one.answer.set_result(answer)
