"""The one thread that asks the models: lanes of waiting work take turns, so that none can starve another."""

import abc
import math
import time
from collections import deque
from collections.abc import Callable
from threading import Condition, Thread

Work = Callable[[], None]
NEVER = math.inf


class Lane(abc.ABC):
    """Work that waits; its methods are called while the thread's condition is held."""

    @abc.abstractmethod
    def due(self) -> float:
        """The moment from which it wants its turn: any in the past, one to come, or NEVER while nothing waits."""

    @abc.abstractmethod
    def take(self) -> Work:
        """What is done in one turn; it no longer waits."""


class Turns:
    """One thread for all models: two at a time would only share the same cores, or the same GPU."""

    def __init__(self) -> None:
        self.lanes: deque[Lane] = deque()  # whose turn was longest ago, first
        self.changed = Condition()
        self.leaving = False
        self.thread = Thread(target=self._work, name="models", daemon=True)

    def add(self, *lanes: Lane) -> None:
        with self.changed:
            self.lanes.extend(lanes)

    def start(self) -> None:
        self.thread.start()

    def stop(self) -> None:
        """Ends after what is being done; for what waits still, nobody waits any more."""
        with self.changed:
            self.leaving = True
            self.changed.notify()
        if self.thread.ident is not None:
            self.thread.join()

    def _work(self) -> None:
        while (work := self._next()) is not None:
            work()

    def _next(self) -> Work | None:
        with self.changed:
            while not self.leaving:
                now = time.monotonic()
                moments = [lane.due() for lane in self.lanes]
                for lane, moment in zip(self.lanes, moments, strict=True):
                    if moment <= now:
                        self.lanes.remove(lane)
                        self.lanes.append(lane)
                        return lane.take()
                first = min(moments, default=NEVER)
                self.changed.wait(None if first == NEVER else first - now)
            return None
