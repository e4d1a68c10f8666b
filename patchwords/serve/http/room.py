"""Room for so many of something at a time; who comes when it is full is told to come again, and nothing piles up."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from patchwords.serve.http.refusal import Refused

AGAIN = {"Retry-After": "1"}  # seconds


class Room:
    """Counts what is inside; threads may share it."""

    def __init__(self, most: int, full: str):
        self.most, self.full = most, full
        self.taken = 0
        self.lock = Lock()

    def check(self) -> None:
        """Refuses at once where there is no room, before anything is sent that would be refused."""
        if self.taken >= self.most:
            raise Refused(429, self.full, AGAIN)

    def take(self, amount: int = 1) -> None:
        with self.lock:
            if self.taken + amount > self.most:
                raise Refused(429, self.full, AGAIN)
            self.taken += amount

    def give(self, amount: int = 1) -> None:
        with self.lock:
            self.taken -= amount

    @contextmanager
    def one(self) -> Iterator[None]:
        """A place for as long as it is needed."""
        self.take()
        try:
            yield
        finally:
            self.give()
