"""The run folder: made once, never overwritten, held by one process; its files are replaced whole, its metrics grow."""

import csv
import io
import json
import math
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from patchwords.errors import DataError, UsageError
from patchwords.pages.folder import ROOT, numbered
from patchwords.training.run import durable
from patchwords.training.run.lock import Lock

LOCK, RECIPE, CHECKPOINTS, METRICS, TABLE = ".lock", "recipe.toml", "checkpoints", "metrics.jsonl", "metrics.csv"

PLACE = ("kind", "step", "epoch", "seconds")  # in a line of metrics, where in the run it stands

Row = Mapping[str, Any]


class RunFolder:
    """A folder whose lock this process holds until `close`, or until it dies; a visitor without one only reads."""

    def __init__(self, path: Path, lock: Lock | None, made: bool = False) -> None:
        self.path = path
        self._lock = lock
        self._made = made  # and not found empty

    @classmethod
    def create(cls, path: Path | None, data_name: str, root: Path = ROOT) -> Self:
        """A new one: the given path, which must be free or empty, or the next number under the root."""
        made = path is None or not path.exists()
        with durable.refusals(path or root):
            if path is None:
                path = numbered(root, data_name)
            elif path.exists() and not path.is_dir():
                raise UsageError(f"{path} is a file: choose another run folder with --out")
            path.mkdir(parents=True, exist_ok=True)
            _refuse_used(path)
            run = cls(path, Lock(path / LOCK), made)
            try:
                _refuse_used(path)  # two that came at once are told apart by the lock
            except UsageError:
                run.close()
                raise
            durable.sync(path.parent)
        return run

    @classmethod
    def reopen(cls, path: Path, first: str = RECIPE) -> Self:
        """One that something was begun in, with this file; what a killed process left half-written is removed."""
        if not path.is_dir():
            raise UsageError(f"{path} is no run folder to resume: it does not exist")
        if not (path / first).is_file():
            raise UsageError(f"{path} is no run folder to resume: there is no {first} in it")
        run = cls(path, Lock(path / LOCK))
        with durable.refusals(path):
            durable.clean(path)
        return run

    @classmethod
    def visit(cls, path: Path) -> Self:
        """The folder of a run that another of its processes holds."""
        return cls(path, None)

    def close(self) -> None:
        if self._lock:
            self._lock.free()

    def withdraw(self) -> None:
        """Leaves the place as it was before `create`: nothing was begun. A visitor leaves that to the holder."""
        if not self._lock:
            return
        with suppress(OSError):  # what was refused must be heard, whatever the disk says
            for entry in self.path.iterdir():
                if entry.name != LOCK:
                    shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
            self.close()
            (self.path / LOCK).unlink(missing_ok=True)
            if self._made:
                self.path.rmdir()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def checkpoints(self) -> Path:
        return self.path / CHECKPOINTS

    def write_text(self, name: str, text: str) -> None:
        durable.replace(self.path / name, text.encode())

    def write_json(self, name: str, value: Any) -> None:
        durable.replace(self.path / name, _json(value, indent=2) + b"\n")

    def append(self, row: Row) -> None:
        """One more line of metrics; a number that is not finite, which JSON does not know, is null."""
        line = _json({key: None if _is_lost(value) else value for key, value in row.items()}) + b"\n"
        with durable.refusals(self.path / METRICS, len(line)), (self.path / METRICS).open("ab") as file:
            file.write(line)

    def metrics_size(self) -> int:
        """The bytes of metrics so far, which are on the disk by then: a checkpoint that says so can rely on it."""
        path = self.path / METRICS
        with durable.refusals(path):
            if not path.exists():
                return 0
            durable.sync(path)
            return path.stat().st_size

    def truncate_metrics(self, size: int) -> list[str]:
        """Cuts what came after the checkpoint that says this size, and a torn line; notes say what is missing."""
        path = self.path / METRICS
        with durable.refusals(path):
            data = path.read_bytes() if path.exists() else b""
            whole = data[: data.rfind(b"\n", 0, size) + 1]
            if len(whole) < len(data):
                os.truncate(path, len(whole))
                durable.sync(path)
        if len(whole) < size:
            return [f"{path} has {len(whole)} whole bytes, the checkpoint knew {size}: lines of metrics are missing"]
        return []

    def rows(self) -> Iterator[dict[str, Any]]:
        """The metrics so far; a torn last line does not count."""
        path = self.path / METRICS
        lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
        for number, line in enumerate(lines, start=1):
            try:
                row = json.loads(line)
            except ValueError:
                row = None
            if not isinstance(row, dict):
                raise DataError(f"line {number} of {path} is not a JSON object: mend or delete it")
            yield row

    def write_csv(self) -> None:
        """The metrics as a table, with a column for every key that any line has."""
        rows = list(self.rows())
        columns = list(dict.fromkeys(key for row in rows for key in row))
        text = io.StringIO(newline="")
        table = csv.DictWriter(text, columns, lineterminator="\n")
        table.writeheader()
        table.writerows(rows)
        durable.replace(self.path / TABLE, text.getvalue().encode("utf-8", "backslashreplace"))


def _refuse_used(path: Path) -> None:
    if any(entry.name != LOCK for entry in path.iterdir()):
        raise UsageError(
            f"{path} is not empty, and a run folder is never overwritten: choose another with --out, "
            f"or go on with the run in it with --resume {path}"
        )


def _json(value: Any, indent: int | None = None) -> bytes:
    """A file name that is no text keeps its bytes as an escape, which JSON reads back."""
    return json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False).encode("utf-8", "backslashreplace")


def _is_lost(value: Any) -> bool:
    return isinstance(value, float) and not math.isfinite(value)
