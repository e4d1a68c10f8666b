"""A run on the terminal: one bar an epoch, and plain lines where there is no terminal."""

import errno
import math
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.table import Column

from patchwords.cli.output import Output, size
from patchwords.training.run.folder import PLACE
from patchwords.training.signals import deserted, muted

if TYPE_CHECKING:
    from patchwords.training.watch import Moment

PAUSE = 10.0  # seconds between plain lines about the same work
GONE = (errno.EPIPE, errno.EIO)  # what a pipe says that nobody reads, and a terminal that is closed


class Bars:
    """Speaks through a command's output; with --json every evaluation and every note is a line."""

    def __init__(self, output: Output):
        self.output = output
        self.live = output.talk.is_terminal and not output.quiet
        kept = Column(no_wrap=True, min_width=12)
        columns = (
            TextColumn("{task.description}", markup=False, table_column=kept),
            BarColumn(12, table_column=kept),
            TextColumn("{task.fields[says]}", markup=False, table_column=Column(no_wrap=True)),
        )
        self.progress = Progress(*columns, console=output.talk, disable=not self.live, redirect_stdout=False)
        self.task: TaskID | None = None
        self.what = ""
        self.told = time.monotonic()
        self.last: Moment | None = None
        self.heard = True  # until a pipe breaks, a terminal is closed or a disk is full

    def note(self, remark: str) -> None:
        self._say({"kind": "note", "note": remark}, remark)

    def working(self, what: str, done: int, total: int) -> None:
        self._show(what, done, total, f"{done:,} of {total:,}" if total else f"{done:,}")
        if not self.live and (0 < total <= done or time.monotonic() - self.told > PAUSE):
            self.told = time.monotonic()
            self._say({}, f"{what}: {done} of {total or 'many'}")

    def step(self, done: int, total: int) -> None:
        if self.last is None:
            return
        epochs = max(1, math.ceil(self.last.epochs))
        number = min(epochs, 1 + int((done - 1) * self.last.epochs / total))
        first, stop = (
            math.ceil(edge * total / self.last.epochs) for edge in (number - 1, min(number, self.last.epochs))
        )
        self._show(f"epoch {number}/{epochs}", done - first, stop - first, told(self.last))

    def moment(self, moment: "Moment") -> None:
        self.last = moment
        if not self.live and time.monotonic() - self.told > PAUSE:
            self.told = time.monotonic()
            self._say({}, f"epoch {moment.epoch:.2f}/{round(moment.epochs, 1):g}  {told(moment)}")

    def scored(self, row: dict[str, Any], best: bool) -> None:
        names = ("accuracy", "loss") if "top5" in row else [name for name in row if name not in PLACE]
        scores = "  ".join(f"{name} {_number(name, row[name])}" for name in names)
        self._say(row, f"epoch {row['epoch']:.1f}: validation {scores}{'  (best)' if best else ''}")
        self.told = time.monotonic()

    def close(self) -> None:
        with suppress(OSError):
            self.progress.stop()

    def _say(self, result: Mapping[str, Any], line: str) -> None:
        """A line of JSON, if there is one, and one for people; where they cannot be told, the run saves and ends."""
        if not self.heard:
            return
        try:
            if result:
                self.output.json(result)
            self.output.note(line)
        except OSError as error:
            gone = error.errno in GONE
            if not (deserted() if gone else muted()):
                raise
            self.heard = False
            if gone:  # else a result that finds no room either is an error, too
                self.output.silence()
            why = "nobody reads the output any more" if gone else f"the output could not be written: {error.strerror}"
            with suppress(OSError):
                self.output.note(why)

    def _show(self, what: str, done: int, total: int, says: str) -> None:
        if not self.live:
            return
        if self.task is None or what != self.what:
            if self.task is not None:
                self.progress.remove_task(self.task)
            self.progress.start()
            self.task, self.what = self.progress.add_task(what, total=total or None, says=says), what
        self.progress.update(self.task, completed=done, total=total or None, says=says)


def _number(name: str, value: float) -> str:
    return f"{100 * value:.2f} %" if name == "accuracy" else f"{value:.4f}"


def told(moment: "Moment") -> str:
    """The numbers of a moment on one line, what matters most first: a narrow terminal cuts the end off."""
    left = timedelta(seconds=round(moment.seconds_left))
    accuracy = "" if moment.accuracy is None else f"{100 * moment.accuracy:.1f} %  "
    return (
        f"loss {moment.loss:.3f}  {accuracy}{left} left  {moment.images_per_second:,.0f} images/s  "
        f"rate {moment.rate:.1e}  waiting {100 * moment.waiting:.0f} %  {size(moment.memory)}"
    )
