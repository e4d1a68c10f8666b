"""What a training run tells while it works: to a terminal, a log, a notebook or nobody."""

import logging
from dataclasses import dataclass
from typing import Any, Protocol

logger = logging.getLogger("patchwords")


@dataclass(frozen=True)
class Moment:
    """Where a run is and how it fares; losses and speeds are means since the last one told."""

    epoch: float
    epochs: float
    loss: float
    accuracy: float | None
    rate: float
    images_per_second: float
    waiting: float  # share of the time spent waiting for data
    memory: int  # bytes at most so far
    seconds_left: float


class Watcher(Protocol):
    """Whoever looks on; none of these may change the run."""

    def note(self, remark: str) -> None:
        """A sentence that a person should read."""

    def step(self, done: int, total: int) -> None:
        """After every step."""

    def moment(self, moment: Moment) -> None:
        """Every few steps."""

    def scored(self, row: dict[str, Any], best: bool) -> None:
        """After every evaluation."""

    def working(self, what: str, done: int, total: int) -> None:
        """While something long goes on before or between the steps."""


class Log:
    """Into Python's logging, as a library should."""

    def note(self, remark: str) -> None:
        logger.info("%s", remark)

    def step(self, done: int, total: int) -> None:
        pass

    def moment(self, moment: Moment) -> None:
        logger.debug("%s", moment)

    def scored(self, row: dict[str, Any], best: bool) -> None:
        logger.info("%s", row)

    def working(self, what: str, done: int, total: int) -> None:
        logger.debug("%s %d of %d", what, done, total)
