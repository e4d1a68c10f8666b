"""Whether the fast settings learn the same: the losses of some hundred steps, beside what another seed changes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
import torch
from numpy.typing import NDArray

from patchwords.bench.ceiling import machine
from patchwords.bench.epoch import paced
from patchwords.bench.made import gratings
from patchwords.bench.row import OURS, Report, Row
from patchwords.bench.run import begun, of_source
from patchwords.bench.words import expect_words
from patchwords.data.sources.arrays import Arrays
from patchwords.settings import at_least, check
from patchwords.speed.precision import Precision
from patchwords.training.update import Loaded

SMOOTHED = 20  # steps, over which a curve is averaged before it is compared
PLAIN = {"precision": "float32", "kernels": "plain", "graph": "never"}
FAST = {"kernels": "auto", "graph": "auto"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """A model that learns gratings in every setting from the same start."""

    model: str
    device: torch.device
    batch: int = 256
    steps: int = 500
    image: int = 64
    classes: int = 100
    count: int = 16384
    lr: float = 3e-4
    fast: tuple[Precision, ...] = ("bf16",)

    def __post_init__(self) -> None:
        check(self)
        at_least(1, batch=self.batch, image=self.image, classes=self.classes)
        at_least(self.batch, count=self.count)
        at_least(2 * SMOOTHED, steps=self.steps)
        expect_words("precision", self.fast, get_args(Precision))


def learning(asked: Asked, note: Callable[[str], None]) -> Report:
    """Plain in float32 with two seeds, and fast in every precision with the first: curves, and how far they differ."""
    generator = torch.Generator(asked.device).manual_seed(0)
    size = (asked.image, asked.image)
    pixels, labels = gratings(asked.count, asked.classes, size, asked.device, generator)
    source = Arrays(pixels.permute(0, 2, 3, 1).contiguous().cpu().numpy(), labels.cpu().numpy(), "train")
    runs: dict[str, Mapping[str, Any]] = {
        "float32, plain": {**PLAIN, "seed": 0},
        "float32, plain, another seed": {**PLAIN, "seed": 1},
        **{f"{precision}, fast": {**FAST, "precision": precision, "seed": 0} for precision in asked.fast},
    }
    curves, rows = {}, []
    for name, changes in runs.items():
        losses, row = _run(name, source, changes, asked, note)
        curves[name] = losses
        rows.append(row)
    plain, other, *fast = curves.values()
    noise = largest_gap(plain, other)
    notes = tuple(
        f"the smoothed losses of {asked.steps} steps, fast in {precision} and plain, are "
        f"{largest_gap(plain, curve):.4f} apart at most; those of two seeds {noise:.4f}; they fall from {plain[0]:.3f} "
        f"to {smoothed(plain)[-1]:.3f}, and fast to {smoothed(curve)[-1]:.3f}"
        for precision, curve in zip(asked.fast, fast, strict=True)
    )
    return Report(bench="learning", machine=machine(asked.device, {}), rows=tuple(rows), notes=notes, curves=curves)


def _run(
    name: str, source: Arrays, changes: Mapping[str, Any], asked: Asked, note: Callable[[str], None]
) -> tuple[list[float], Row]:
    size = (asked.image, asked.image)
    settings = {
        "model": asked.model,
        "image": size,
        "batch": asked.batch,
        "optimizer.lr": asked.lr,
        "clip": 1.0,
        "data.cache": "device",
        "data.crop.kind": "padded",
        "data.augment.flip": 0.0,  # it would turn one class into another
        **changes,
    }
    names = tuple(map(str, range(asked.classes)))
    run = begun(of_source("gratings", names, source), settings, asked.device, note)
    losses = []

    def step(loaded: Loaded, number: int) -> None:
        losses.append(run.step(loaded, number).clone())

    feed = run.parts.feed
    pace = paced(lambda: feed.batches(0, asked.steps), step, batch=asked.batch, steps=asked.steps, device=asked.device)
    row = Row(
        bench="learning",
        model=asked.model,
        who=OURS,
        how=name,
        precision=str(changes["precision"]),
        batch=asked.batch,
        image=size,
        images_per_second=pace.steady,
        milliseconds=1000 * asked.batch / pace.steady,
    )
    return torch.stack(losses).tolist(), row


def smoothed(losses: Sequence[float]) -> NDArray[np.float64]:
    """Means over neighbouring steps."""
    return np.convolve(losses, np.full(SMOOTHED, 1 / SMOOTHED), mode="valid")


def largest_gap(one: Sequence[float], other: Sequence[float]) -> float:
    return float(np.abs(smoothed(one) - smoothed(other)).max())
