"""Ctrl-C and SIGTERM as a wish that the loop hears between two steps."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from patchwords.errors import PatchwordsError

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StoppedError(PatchwordsError):
    """The run was asked to stop, and its state is saved."""

    def __init__(self, number: int, sentence: str):
        super().__init__(sentence)
        self.exit_code = 128 + number


class Wish:
    """The number of the signal that came, or 0. A second Ctrl-C leaves at once; SIGTERM often comes twice by itself."""

    def __init__(self) -> None:
        self.number = 0

    def hear(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGINT == self.number:
            raise SystemExit(128 + number)
        self.number = number


@contextmanager
def listening() -> Iterator[Wish]:
    """Signals are heard, not obeyed at once; only the main thread can do so, others keep what is there."""
    wish = Wish()
    if threading.current_thread() is not threading.main_thread():
        yield wish
        return
    before = {number: signal.signal(number, wish.hear) for number in SIGNALS}
    try:
        yield wish
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
