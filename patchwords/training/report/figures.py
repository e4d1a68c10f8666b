"""The curves of a run."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator
from numpy.typing import NDArray

from patchwords.pages.drawing import INK, PERCENT, ROUND, TRAINING, VALIDATION, style, svg
from patchwords.pages.markup import Markup

Numbers = NDArray[Any]
Unit = Literal["plain", "percent", "power", "speed"]

MOST_POINTS = 240  # of a curve; more are joined into means with a band from the least to the most
FEW_POINTS = 25  # so few are drawn one by one

FORMATS: dict[Unit, FuncFormatter | None] = {
    "plain": None,
    "percent": PERCENT,
    "power": FuncFormatter(lambda rate, _: re.sub(r"\.?0*e([+-])0*", r"e\1", f"{rate:.2e}") if rate else "0"),
    "speed": None,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Curve:
    """One line of a figure."""

    who: Literal["training", "validation"]
    epochs: Numbers
    values: Numbers


def curves(name: str, lines: Sequence[Curve], *, says: str, unit: Unit = "plain", best: float | None = None) -> Markup:
    """Lines over the epochs; `best` is the epoch of the model that was kept."""
    with style(name):
        figure = Figure(figsize=(5.2, 2.9))
        axes = figure.add_subplot(xlabel="epoch")
        for line in lines:
            _draw(axes, line)
        if best is not None:
            axes.axvline(best, color=INK, linewidth=0.9, linestyle=(0, (2, 3)))
        axes.yaxis.set_major_locator(MaxNLocator(5, steps=ROUND))
        axes.xaxis.set_major_locator(MaxNLocator(6, steps=ROUND))
        axes.set_xlim(left=0)
        if unit in ("power", "speed"):
            axes.set_ylim(0, 1.06 * axes.get_ylim()[1])
        if formatter := FORMATS[unit]:
            axes.yaxis.set_major_formatter(formatter)
        return svg(figure, name, says)


def _draw(axes: Axes, line: Curve) -> None:
    color = {"training": TRAINING, "validation": VALIDATION}[line.who]
    parts = min(len(line.values), MOST_POINTS)
    bands = [part for part in np.array_split(np.stack([line.epochs, line.values], 1), max(parts, 1)) if len(part)]
    epochs, means = np.array([part.mean(0) for part in bands]).reshape(-1, 2).T
    if len(line.values) > MOST_POINTS:
        low, high = ([limit(part[:, 1]) for part in bands] for limit in (np.min, np.max))
        axes.fill_between(epochs, low, high, color=color, alpha=0.2, linewidth=0)
    axes.plot(epochs, means, color=color, marker="o" if len(bands) <= FEW_POINTS else "", markersize=3.2)
