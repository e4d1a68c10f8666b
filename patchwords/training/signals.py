"""Ctrl-C, SIGTERM, a terminal that hangs up and a full disk, as a wish that the loop hears between two steps."""

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from patchwords.errors import PatchwordsError, ResourceError

HANG_UP = signal.SIGTERM if sys.platform == "win32" else signal.SIGHUP
SIGNALS = {signal.SIGINT, signal.SIGTERM, HANG_UP}
MUTED = 100  # no signal, and above them all: what a run says finds no room
WORDS = {1: "SIGHUP", 2: "Ctrl-C", 15: "SIGTERM", MUTED: "output that finds no room"}


class StoppedError(PatchwordsError):
    """The run was asked to stop, and its state is saved."""

    def __init__(self, number: int, sentence: str):
        super().__init__(sentence)
        self.exit_code = ResourceError.exit_code if number == MUTED else 128 + number


class Wish:
    """The number of the signal that came, or 0. A second Ctrl-C leaves at once; SIGTERM often comes twice by itself."""

    def __init__(self) -> None:
        self.number = 0

    def hear(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGINT == self.number:
            raise SystemExit(128 + number)
        self.number = number


_listening: list[Wish] = []  # the innermost last


@contextmanager
def listening() -> Iterator[Wish]:
    """Signals are heard, not obeyed at once; only the main thread can do so, others keep what is there.

    Under nohup nobody wants to hear of the terminal.
    """
    wish = Wish()
    if threading.current_thread() is not threading.main_thread():
        yield wish
        return
    wanted = [number for number in SIGNALS if number != HANG_UP or signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, wish.hear) for number in wanted}
    _listening.append(wish)
    try:
        yield wish
    finally:
        _listening.pop()
        for number, handler in before.items():
            signal.signal(number, handler)


def word(number: int) -> str:
    """What stopped a run."""
    return WORDS.get(number, f"signal {number}")


def muted() -> bool:
    """Tells a run that what it says finds no room, under nohup too; False where none listens."""
    for wish in _listening[-1:]:
        wish.number = MUTED
    return bool(_listening)


def deserted() -> bool:
    """Tells a run that nobody looks on any more, as a terminal does that hangs up; False where none listens."""
    heard = signal.getsignal(HANG_UP)
    if callable(heard):
        signal.raise_signal(HANG_UP)
    return heard != signal.SIG_DFL
