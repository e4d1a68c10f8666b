"""A learning rate for this model and data: a short run with a rate that grows, and a picture of its loss.

The range test of Smith, 2017: losses fall while the rate is useful and rise when it is too high; suggested is the
highest that is useful.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patchwords.data.sources.door import spelled
from patchwords.errors import UsageError
from patchwords.objectives.kinds import guides_of
from patchwords.training import optimizer
from patchwords.training.assemble import Parts, Setting, parts
from patchwords.training.distributed import World, world
from patchwords.training.fit import settled
from patchwords.training.guides import bring, expect_guide
from patchwords.training.pictures import look, opened
from patchwords.training.recipe import choose
from patchwords.training.run import durable
from patchwords.training.signals import Wish
from patchwords.training.start import begin
from patchwords.training.watch import Log, Watcher

LOWEST, HIGHEST = 1e-6, 1.0
STEPS = 100
SMOOTH = 5.0  # steps: the deviation of the weights
FIRST = 5  # steps, before there is anything to see
STILL = 0.1  # of its fastest fall, and a loss still falls
ENDINGS = (".png", ".jpg", ".jpeg", ".webp", ".pdf", ".svg", ".eps")  # of the picture's name, which say what is written
WORSE = 4.0  # times the lowest loss, and the search ends
CERTAIN = 4.5  # standard errors: of a thousand searches in mere noise, one or two find such a fall


@dataclass(frozen=True)
class Rate:
    """The rates that were tried, the smoothed losses after each, the suggestion, and the picture of it."""

    rates: NDArray[np.float64]
    losses: NDArray[np.float64]
    suggestion: float
    picture: Path


def find_rate(
    data: str | Path = "",
    *,
    recipe: str | Path | None = None,
    change: Mapping[str, Any] | None = None,
    device: str = "auto",
    out: str | Path | None = None,
    offline: bool = False,
    mirror: str = "",
    watcher: Watcher | None = None,
) -> Rate:
    """Trains for a hundred steps with growing rates, keeps nothing of it but a picture, and suggests a rate."""
    watcher, given = watcher or Log(), spelled(data)
    picture = Path(out or "learning-rate.png")
    if picture.suffix.lower() not in ENDINGS:
        raise UsageError(f"{picture.name} is no name for the picture: choose one that ends in {', '.join(ENDINGS)}")
    if picture.exists():
        raise UsageError(f"{picture} exists: name another file for the picture with --out")
    with durable.refusals(picture):
        picture.parent.mkdir(parents=True, exist_ok=True)
    with world(device) as here:
        chosen = choose(given, recipe, dict(change or {}), watcher.note)
        bring([chosen.weights, *guides_of(chosen.objective).values()], watcher, offline=offline, mirror=mirror)
        expect_guide(chosen.objective)
        found = opened(given, chosen, watcher, offline=offline, mirror=mirror)
        model, card = begin(chosen, found)
        chosen = settled(chosen, model, len(found.train), here)
        if here.leads:
            look(found, chosen, watcher)
        made = parts(Setting(chosen, found, here, watcher, Wish()), model, card)
        tried, losses = _tried(made, here, watcher)
        smoothed = _smoothed(losses)
        suggestion = _highest_useful(tried, smoothed)
        _expect_a_fall(losses)
        if here.leads:
            _draw(picture, tried, losses, smoothed, suggestion)
    setting = chosen.optimizer.lr / optimizer.scaled(chosen.optimizer, made.update.batch)  # what `lr` stands for
    return Rate(tried, smoothed, _rounded(suggestion * setting), picture)


def _tried(made: Parts, here: World, watcher: Watcher) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    tried: list[float] = []
    losses: list[float] = []
    made.objective.train()
    for step, loaded in enumerate(made.feed.batches(0, STEPS)):
        rate = LOWEST * (HIGHEST / LOWEST) ** (step / (STEPS - 1))
        optimizer.rates(made.update.optimizer, rate)
        numbers, _ = made.update(loaded, step, 0.0)
        loss = float(here.total(numbers["loss"]))  # of all processes, so that all stop together
        if not math.isfinite(loss) or (losses and loss > WORSE * min(losses) and step > STEPS // 4):
            break
        tried.append(rate)
        losses.append(loss)
        watcher.working("looking for a learning rate", step + 1, STEPS)
    return np.array(tried), np.array(losses)


def _smoothed(losses: NDArray[np.float64]) -> NDArray[np.float64]:
    """A mean weighted by distance, of as many steps before as after: one of the past alone would come too late.

    What is above the first losses counts as high as these, since how far a loss jumps is not to hide where it fell.
    """
    return _weights(len(losses)) @ np.minimum(losses, losses[:FIRST].max(initial=-np.inf))


def _weights(count: int) -> NDArray[np.float64]:
    """Of the losses of all steps (columns) in the mean around each (rows)."""
    steps = np.arange(count)
    weights = np.exp(-(((steps[:, None] - steps) / SMOOTH) ** 2) / 2)
    return weights / weights.sum(1, keepdims=True)


def _expect_a_fall(losses: NDArray[np.float64]) -> None:
    """Some mean must lie so far below an earlier one that the scatter of the losses around the two does not explain it.

    The scatter is taken where the means are, since a zero head says the same of all pictures until the rates are high.
    Nothing is capped: of noise that grows, what is left below a cap falls.
    """
    weights = _weights(len(losses))
    means, shares = weights @ losses, (weights**2).sum(1)
    errors = (weights * (losses - means[:, None]) ** 2).sum(1) * shares / (1 - shares)
    falls = np.triu(means[:, None] - means)
    if not (falls > CERTAIN * np.sqrt(errors[:, None] + errors)).any():
        raise UsageError(
            "the loss fell no further while the rate grew than its noise explains, so that no rate can be suggested: "
            "choose a larger batch, more pictures or another model, or give a rate with --lr"
        )


def _highest_useful(tried: NDArray[np.float64], losses: NDArray[np.float64]) -> float:
    """The last rate, from where the loss falls fastest over the logarithm of the rate, at which it still falls.

    Where it falls fastest is no rate to learn with: what is learned at once, such as the mean of the pixels that a
    reconstruction begins with, falls far at any rate, and what takes longer falls less at the rates that it needs.
    """
    lowest = int(losses.argmin()) if len(losses) else 0  # none where the very first was no number
    if lowest < 2:
        raise UsageError("the loss never fell while the rate grew: look at the data and at the recipe's warm-up")
    slopes = np.gradient(losses, np.log(tried))[:lowest]
    fastest = int(slopes.argmin())
    slow = np.flatnonzero(slopes[fastest:] > STILL * slopes[fastest])
    last = fastest + int(slow[0]) - 1 if len(slow) else lowest - 1
    return _rounded(tried[last])


def _rounded(rate: float) -> float:
    return float(f"{rate:.1e}")


def _draw(
    picture: Path,
    tried: NDArray[np.float64],
    losses: NDArray[np.float64],
    smoothed: NDArray[np.float64],
    suggestion: float,
) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    axes.semilogx(tried, losses, color="lightgrey", label="as it was")
    axes.semilogx(tried, smoothed, label="smoothed")
    axes.axvline(suggestion, linestyle=":", color="black", label=f"suggested: {suggestion:g}")
    axes.set(xlabel="learning rate", ylabel="training loss")
    axes.legend()
    with durable.refusals(picture):
        figure.savefig(picture, dpi=150)
