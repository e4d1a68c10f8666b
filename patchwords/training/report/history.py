"""A run folder read back: what was asked for, what happened, what came out; of a stopped run, what there is."""

import json
import math
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patchwords.errors import ModelError, UsageError
from patchwords.evaluation.classify import LOWER_IS_BETTER
from patchwords.objectives.kinds import WITHOUT_LABELS
from patchwords.weights import files

Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class History:
    """The files of a run folder; those that were not written yet are empty."""

    folder: Path
    recipe: Row
    recipe_text: str
    run: Row  # command, device, started, seconds, … as the loop wrote them
    data: Row  # name, digest, counts, names, notes
    classes: tuple[str, ...]
    train: tuple[Row, ...]  # the lines of metrics.jsonl, a step once
    val: tuple[Row, ...]

    @property
    def title(self) -> str:
        model = self.recipe.get("model") or self.recipe.get("weights") or "A model"
        return f"{model} on {self.data.get('name', 'unnamed data')}"

    @property
    def counts(self) -> Row:
        """Pictures by split."""
        return dict(self.data.get("counts", {}))

    @property
    def names(self) -> tuple[str, ...]:
        """The validation pictures' files."""
        return tuple(self.data.get("names", {}).get("val", ()))

    @property
    def measure(self) -> str:
        """The score by which the best model was chosen."""
        return str(self.recipe.get("best", "accuracy"))

    @property
    def objective(self) -> str:
        """The kind of what was learned."""
        found = self.recipe.get("objective")
        return str(found.get("kind", "")) if isinstance(found, dict) else ""

    @property
    def is_labelled(self) -> bool:
        """Whether the pictures' classes had a say in it."""
        return self.objective not in WITHOUT_LABELS

    @property
    def best(self) -> Row:
        """The evaluation with the best score, the first of equals; empty where there was none."""
        if self.measure == "last":
            return self.val[-1] if self.val else {}
        sign = -1 if self.measure in LOWER_IS_BETTER else 1
        rows = [row for row in self.val if is_number(row.get(self.measure))]
        return max(rows, key=lambda row: sign * row[self.measure], default={})

    @property
    def last(self) -> Row:
        """The last line of all."""
        return max((*self.train, *self.val), key=lambda row: row.get("step", 0), default={})

    @property
    def seconds(self) -> float | None:
        return self._recorded("seconds")

    @property
    def images(self) -> float | None:
        """How many pictures were shown in training, repetitions counted."""
        step, batch = self.last.get("step", 0), self.recipe.get("batch")
        return self._recorded("images") or (step * batch if is_number(batch) else None)

    @property
    def peak_memory(self) -> float | None:
        """Bytes, on the device that trained."""
        return self._recorded("peak_memory")

    @property
    def images_per_second(self) -> float | None:
        _, speeds = series(self.train, "images_per_second")
        return float(np.median(speeds)) if len(speeds) else None

    def _recorded(self, key: str) -> float | None:
        """What run.json says at the end, or the largest number that a line of metrics says so far."""
        values = [row[key] for row in (*self.train, *self.val, self.run) if is_number(row.get(key))]
        return self.run[key] if is_number(self.run.get(key)) else max(values, default=None)


def read(folder: Path) -> History:
    """The history of a run; a folder that is none is refused."""
    if not (folder / "recipe.toml").is_file():
        raise UsageError(f"{folder} is no run folder: there is no recipe.toml in it")
    text = (folder / "recipe.toml").read_text(encoding="utf-8", errors="replace")
    try:
        recipe = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ModelError(f"{folder / 'recipe.toml'} cannot be read: {error}") from None
    rows = list(_lines(folder / "metrics.jsonl"))
    return History(
        folder=folder,
        recipe=recipe,
        recipe_text=text,
        run=_json(folder / "run.json", dict),
        data=_json(folder / "data.json", dict),
        classes=tuple(str(name) for name in _json(folder / "classes.json", list)),
        train=_kind(rows, "train"),
        val=_kind(rows, "val"),
    )


def predictions(folder: Path) -> tuple[NDArray[Any], NDArray[Any]] | None:
    """Logits and labels of the validation pictures, where the run got that far."""
    path = folder / "predictions.npz"
    if not path.is_file():
        return None
    found = files.read(path).tensors
    if missing := {"logits", "labels"} - set(found):
        raise ModelError(f"{path} holds no {' and no '.join(sorted(missing))}: evaluate the run again")
    return found["logits"].numpy(), found["labels"].numpy()


def series(rows: tuple[Row, ...], key: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """Epochs and values of the lines that hold a finite value."""
    points = [(row["epoch"], row[key]) for row in rows if is_number(row.get(key)) and is_number(row.get("epoch"))]
    epochs, values = np.array(points, dtype=np.float64).reshape(-1, 2).T
    return epochs, values


def is_number(value: object) -> bool:
    return type(value) in (int, float) and math.isfinite(value)  # type: ignore[arg-type]


def _kind(rows: list[Row], kind: str) -> tuple[Row, ...]:
    """In the order of the steps; after a resume the later line of a step holds."""
    steps = {row["step"]: row for row in rows if row.get("kind") == kind and is_number(row.get("step"))}
    return tuple(steps[step] for step in sorted(steps))


def _lines(path: Path) -> Iterator[Row]:
    """The lines of a file that may have been cut off within the last one."""
    text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    for line in text.split("\n")[:-1]:
        if line.strip():
            yield _parse(path, line, dict)


def _json(path: Path, kind: type) -> Any:
    return _parse(path, path.read_text(encoding="utf-8", errors="replace"), kind) if path.is_file() else kind()


def _parse(path: Path, text: str, kind: type) -> Any:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path} cannot be read: {error}") from None
    if not isinstance(value, kind):
        raise ModelError(f"{path} cannot be read: {text[:40].strip()!r} is no JSON {kind.__name__}")
    return value
