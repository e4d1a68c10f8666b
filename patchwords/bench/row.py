"""What was measured: a row for everybody who did the work, and the machine that it was done on."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patchwords.bench.measure import Entrant

OURS = "ours"
EPOCH = "epoch"  # ends the name of a ratio of whole epochs


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One entrant's numbers; a call is a batch through the model, a training step, or as its bench says."""

    bench: str
    model: str
    who: str
    how: str
    precision: str
    batch: int
    image: tuple[int, int]
    images_per_second: float
    milliseconds: float  # of a call
    spread: float = 0.0  # of the rounds: from the tenth to the ninetieth of a hundred, over the median
    memory: int | None = None
    preparing: float = 0.0
    ceiling: float | None = None  # the share of the matrix ceiling that was measured beside it
    ratios: dict[str, float] = field(default_factory=dict)  # ours: how many times as fast as each of the others
    further: dict[str, float] = field(default_factory=dict)  # what this bench alone tells

    @property
    def named(self) -> str:
        return f"{self.who} {self.how}".strip()


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """The rows of a bench, and what a person should hear beside them."""

    bench: str
    machine: dict[str, Any]
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    curves: dict[str, list[float]] = field(default_factory=dict)  # by name, where something was followed


def row(bench: str, model: str, entrant: Entrant, seconds: NDArray[np.float64], **fields: Any) -> Row:
    """An entrant's row from its seconds a call in each round."""
    median = float(np.median(seconds))
    low, high = np.quantile(seconds, [0.1, 0.9])
    return Row(
        bench=bench,
        model=model,
        who=entrant.who,
        how=entrant.how,
        precision=entrant.precision,
        images_per_second=fields["batch"] / median,
        milliseconds=1000 * median,
        spread=float(high - low) / median,
        memory=entrant.memory,
        preparing=entrant.preparing,
        further=dict(entrant.told),
        **fields,
    )


def compared(rows: Iterable[Row]) -> tuple[Row, ...]:
    """The rows, ours with how many times as fast they are as each of the others of the same batch and picture."""
    every = list(rows)
    return tuple(replace(one, ratios=_ratios(one, every)) if one.who == OURS else one for one in every)


def _ratios(ours: Row, every: Sequence[Row]) -> dict[str, float]:
    rivals = [other for other in every if other.who != OURS and (other.batch, other.image) == (ours.batch, ours.image)]
    return {
        f"{other.named} {other.precision}".strip(): ours.images_per_second / other.images_per_second for other in rivals
    }
