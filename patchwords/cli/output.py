"""What a command says: results on stdout, as tables for people or as JSON lines; talk and progress on stderr."""

import errno
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn
from rich.table import Table

WIDTH = 160  # of tables in files and pipes, which have no edge


class Voice(Console):
    """Rich leaves at once where a pipe breaks, and so would a training; here that is an error like others."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


class Output:
    """One command's voice; `as_json` and `quiet` are the flags of that name."""

    def __init__(self, as_json: bool, quiet: bool):
        self.as_json = as_json
        self.quiet = quiet
        self.console = Voice(highlight=False, emoji=False, soft_wrap=True)
        if not self.console.is_terminal:
            self.console.width = WIDTH
        self.talk = Voice(stderr=True, highlight=False, emoji=False, quiet=quiet, soft_wrap=True)

    def json(self, result: Mapping[str, Any]) -> None:
        if self.as_json:
            print(json.dumps(result, ensure_ascii=False), flush=True)

    def text(self, line: str) -> None:
        if not self.as_json:
            self.console.print(line, markup=False)

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Words to the left; what starts with a digit, and its column's head, to the right."""
        if self.as_json:
            return
        table = Table(box=None, pad_edge=False, header_style="bold")
        for i, column in enumerate(columns):
            numbers = any(row[i][:1].isdigit() for row in rows) and all(
                row[i][:1].isdigit() or not row[i] for row in rows
            )
            table.add_column(column, justify="right" if numbers else "left", overflow="fold")
        for row in rows:
            table.add_row(*row)
        self.console.print(table, markup=False)

    def note(self, remark: str) -> None:
        self.talk.print(remark, markup=False)

    def silence(self) -> None:
        """What can no longer be written goes nowhere from now on, also what Python still holds when it ends."""
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except OSError:
                with open(os.devnull, "wb") as nowhere:
                    os.dup2(nowhere.fileno(), stream.fileno())

    @contextmanager
    def download(self, name: str) -> Iterator[Callable[[int, int], None]]:
        """A progress bar that appears with the first bytes, as the function that `store.fetch` calls."""
        words = TextColumn("{task.description}", markup=False)
        columns = (words, BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
        progress = Progress(*columns, console=self.talk, disable=self.quiet, redirect_stdout=False)

        def advance(done: int, total: int) -> None:
            if not progress.tasks:
                progress.start()
                progress.add_task(name)
            progress.update(progress.tasks[0].id, completed=done, total=total or None)

        try:
            yield advance
        finally:
            if progress.tasks:
                progress.stop()


def count(number: int) -> str:
    return f"{number:,}"


def size(number: float) -> str:
    """Bytes for people."""
    for unit in ("B", "KiB", "MiB"):
        if number < 1024:
            return f"{number:.0f} {unit}"
        number /= 1024
    return f"{number:.1f} GiB"
