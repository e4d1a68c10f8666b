"""What larger pictures cost: speed and memory of answering and of learning, from size to size."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from patchwords.bench import inference, training
from patchwords.bench.measure import Effort
from patchwords.bench.row import OURS, Report, Row
from patchwords.bench.values import randomised
from patchwords.errors import UsageError
from patchwords.models.build import build
from patchwords.models.vit import ViTConfig
from patchwords.settings import at_least, check
from patchwords.speed.kernels.available import Choice
from patchwords.speed.precision import Precision


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """The sides of square pictures, so many of which are taken at a time, whatever their size."""

    model: str
    device: torch.device
    images: tuple[int, ...] = (224, 384, 512, 768, 1024)
    batch: int = 32
    precision: Precision = "bf16"
    kernels: Choice = "auto"
    effort: Effort = field(default_factory=lambda: Effort(rounds=3, seconds=0.3))

    def __post_init__(self) -> None:
        check(self)
        at_least(1, batch=self.batch)
        at_least(2, images=len(self.images))


def growth(asked: Asked, note: Callable[[str], None]) -> Report:
    """Ours at every size; the notes say how far memory is from a line over the number of tokens."""
    rows: list[Row] = []
    machine: dict[str, Any] = {}
    for side in asked.images:
        model = randomised(build(asked.model, image=side))
        if not isinstance(model.config, ViTConfig):
            raise UsageError(f"growth is told by tokens, which a ViT has and {asked.model} has not")
        tokens = {"tokens": float(model.config.tokens)}
        common: dict[str, Any] = {
            "batch": asked.batch,
            "device": asked.device,
            "kernels": asked.kernels,
            "effort": asked.effort,
        }
        answering = inference.Asked(precisions=(asked.precision,), who=(OURS,), **common)
        learning = training.Asked(precisions=(asked.precision,), who=(OURS,), **common)
        for report in (
            inference.inference(asked.model, model, answering, note),
            training.training(asked.model, model, learning, note),
        ):
            machine = report.machine
            rows += [replace(row, further=row.further | tokens) for row in report.rows]
    return Report(bench="growth", machine=machine, rows=tuple(rows), notes=tuple(_lines(rows)))


def _lines(rows: Sequence[Row]) -> Iterator[str]:
    """The straight line of memory over tokens, and the largest distance from it."""
    for bench in ("inference", "training"):
        of_bench = [row for row in rows if row.bench == bench and row.memory is not None]
        if len(of_bench) < 2:
            continue
        tokens = np.array([row.batch * row.further["tokens"] for row in of_bench])
        memory = np.array([float(row.memory or 0) for row in of_bench])
        slope, rest = np.polyfit(tokens, memory, 1)
        off = float(np.abs(memory / (slope * tokens + rest) - 1).max())
        yield (
            f"{bench}: {slope / 1024:.1f} KiB a token and {rest / 2**30:.2f} GiB; "
            f"every size lies within {100 * off:.1f} % of that line"
        )
