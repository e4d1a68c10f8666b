"""The numbers of a study: a row for each cell, means over seeds, and whether two of them differ by more than chance."""

import csv
import io
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from patchwords.pages.cells import cell
from patchwords.pages.wording import SPACE
from patchwords.studies.cell import Cell
from patchwords.studies.outcome import Outcome

SCORES = {"accuracy": "accuracy", "few_shot": "few-shot accuracy"}  # what people call them
JUDGED = {"accuracy": "judged", "few_shot": "few_shot_judged"}  # how many pictures a share is of
CERTAIN = 2.0  # standard errors between two means that are told apart
UNKNOWN = 0.02  # what seeds are thought to deviate by where there is one
ALIKE = 0.02  # between two means that are told to be the same


@dataclass(frozen=True, kw_only=True)
class Row:
    """A cell and what it came to."""

    cell: Cell
    outcome: Outcome

    @property
    def table(self) -> dict[str, Any]:
        """As a line of the table."""
        cell, lost = self.cell, {"lost": self.outcome.lost} if self.outcome.lost else {}
        return {"stage": cell.stage, **cell.at, "seed": cell.seed, **self.outcome.numbers, **lost}

    @property
    def seen(self) -> int:
        """How many pictures its training was shown, repetitions counted."""
        return round(self.outcome.numbers.get("seen", 0))


@dataclass(frozen=True, kw_only=True)
class Measure:
    """A share, once for each seed, of so many pictures that were judged."""

    values: tuple[float, ...]
    judged: int

    @property
    def mean(self) -> float:
        return statistics.fmean(self.values)

    @property
    def deviation(self) -> float:
        """Of the sample (n - 1); 0 with one seed, of which nobody knows it."""
        return statistics.stdev(self.values) if len(self.values) > 1 else 0.0

    @property
    def error(self) -> float:
        """The standard error of the mean: by the spread of the seeds, and at least that of so many pictures.

        One picture is thought to be right and one wrong beside those that are: no share is certain.
        """
        share = (self.mean * self.judged + 1) / (self.judged + 2)
        spread = self.deviation if len(self.values) > 1 else UNKNOWN
        return math.sqrt(max(share * (1 - share) / max(self.judged, 1), spread**2) / len(self.values))

    def __str__(self) -> str:
        spread = f" ± {100 * self.deviation:.1f}" if len(self.values) > 1 else ""
        return f"{100 * self.mean:.1f}{spread}{SPACE}%"


def apart(one: Measure, other: Measure) -> int:
    """1 where the first is higher by more than chance, -1 where it is lower, 0 where nobody can tell."""
    gap = one.mean - other.mean
    if abs(gap) <= CERTAIN * math.hypot(one.error, other.error):
        return 0
    return 1 if gap > 0 else -1


def alike(one: Measure, other: Measure) -> bool | None:
    """Whether two means are the same but for little, for which it is not enough that none sees a difference."""
    reach = abs(one.mean - other.mean) + CERTAIN * math.hypot(one.error, other.error)
    return True if reach <= ALIKE else False if apart(one, other) else None


def grown(before: tuple[Measure, Measure], after: tuple[Measure, Measure]) -> int:
    """Whether the lead of the first over the second grew: 1, -1 where it fell, 0 where nobody can tell."""
    change = (after[0].mean - after[1].mean) - (before[0].mean - before[1].mean)
    if abs(change) <= CERTAIN * math.hypot(*(measure.error for measure in (*before, *after))):
        return 0
    return 1 if change > 0 else -1


def told(sign: int) -> bool | None:
    """A comparison as an answer: yes, no, or nobody can tell."""
    return None if sign == 0 else sign > 0


@dataclass(frozen=True, kw_only=True)
class Results:
    """All rows so far."""

    rows: Sequence[Row]

    def where(self, **at: Any) -> "Results":
        """The rows with these values, the stage among them."""
        return Results(
            rows=[row for row in self.rows if at.items() <= {"stage": row.cell.stage, **row.cell.at}.items()]
        )

    def measure(self, score: str, **at: Any) -> Measure | None:
        """A score over the seeds; None where every loss became infinite, or nothing of the kind is known."""
        found = [row.outcome.numbers for row in self.where(**at).rows if score in row.outcome.numbers]
        if not found:
            return None
        judged = int(found[0].get(JUDGED[score], 0))
        return Measure(values=tuple(numbers[score] for numbers in found), judged=judged)

    def mean(self, number: str, **at: Any) -> float | None:
        """Of a cost over the seeds."""
        found = [row.outcome.numbers[number] for row in self.where(**at).rows if number in row.outcome.numbers]
        return statistics.fmean(found) if found else None

    def seeds(self) -> list[int]:
        return sorted({row.cell.seed for row in self.rows})

    def groups(self) -> Iterable[tuple[Mapping[str, Any], "Results"]]:
        """The rows that differ by their seed alone, together."""
        found: dict[tuple[Any, ...], list[Row]] = {}
        for row in self.rows:
            found.setdefault((("stage", row.cell.stage), *row.cell.at.items()), []).append(row)
        return [(dict(key), Results(rows=rows)) for key, rows in found.items()]

    def csv(self) -> str:
        """A line for each cell, with a column for every key that any of them has."""
        rows = [row.table for row in self.rows]
        text = io.StringIO(newline="")
        table = csv.DictWriter(text, list(dict.fromkeys(key for row in rows for key in row)), lineterminator="\n")
        table.writeheader()
        table.writerows(
            {key: cell(value) if isinstance(value, str) else value for key, value in row.items()} for row in rows
        )
        return text.getvalue()
