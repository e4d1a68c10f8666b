"""Work that is done before it is asked for, by a thread."""

import queue
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from typing import NamedTuple, TypeVar

Item = TypeVar("Item")

PATIENCE = 0.05  # seconds between two looks whether anybody still wants the items


class _End(NamedTuple):
    error: BaseException | None


def ahead(make: Callable[[threading.Event], Generator[Item]], depth: int = 1) -> Generator[Item]:
    """What `make` yields, up to `depth` items and the one in hand early; it is given an event that says to stop."""
    stop, made = threading.Event(), queue.Queue[Item | _End](depth)
    worker = threading.Thread(target=_work, args=(make, stop, made), daemon=True)
    worker.start()
    try:
        yield from _taken(made)
    finally:
        stop.set()
        worker.join()


def _taken(made: "queue.Queue[Item | _End]") -> Iterator[Item]:
    while True:
        item = made.get()
        if isinstance(item, _End):
            if item.error is not None:
                raise item.error
            return
        yield item


def _work(
    make: Callable[[threading.Event], Generator[Item]], stop: threading.Event, made: "queue.Queue[Item | _End]"
) -> None:
    error: BaseException | None = None
    try:
        with closing(make(stop)) as items:
            for item in items:
                _put(item, stop, made)
                if stop.is_set():
                    return
    except BaseException as caught:  # it is raised where the items are taken
        error = caught
    finally:
        _put(_End(error), stop, made)


def _put(item: Item | _End, stop: threading.Event, made: "queue.Queue[Item | _End]") -> None:
    while not stop.is_set():
        try:
            return made.put(item, timeout=PATIENCE)
        except queue.Full:
            continue
