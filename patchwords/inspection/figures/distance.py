"""Figure 7, right, and Figure 11: how far each head looks, by depth."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from patchwords.inspection.figures.canvas import DPI, INK, QUIET, Numbers, look, png, sheet
from patchwords.inspection.figures.lettering import fitted

# Colours that the colour-blind can tell apart (Petroff, 2021); further heads have them with another mark.
COLOURS = (
    "#3f90da", "#ffa90e", "#bd1f01", "#94a4a2", "#832db6", "#a96b59", "#e76300", "#b9ac70", "#717581", "#92dadd",
)  # fmt: skip
MARKS = "oD^sv"
HEIGHT, WIDTH, GAP = 3.2 * DPI, 5 * DPI, 40
COLUMN = 18  # lines of the legend beneath each other


@dataclass(frozen=True, kw_only=True, slots=True)
class Reach:
    """One model's mean attention distances in pixels, (layers, heads), and what even attention would give."""

    name: str
    pixels: Numbers
    even: float


def distance(models: Sequence[Reach], *, heading: str, below: str) -> bytes:
    """One model, or several beside each other with the same axes."""
    heads = max(each.pixels.shape[1] for each in models)
    deepest = max(len(each.pixels) for each in models)
    most = max(max(float(each.pixels.max()), each.even) for each in models)
    wide = WIDTH if len(models) == 1 else 0.76 * WIDTH
    named = 30 if len(models) > 1 else 0
    with look("distance"):
        right = 30 + 140 * -(-(heads + 2) // COLUMN)
        page = sheet(len(models) * (wide + GAP) - GAP, HEIGHT + named, left=92, right=right, bottom=84)
        page.title(heading, below)
        for number, model in enumerate(models):
            axes = page.place(number * (wide + GAP), named, wide, HEIGHT)
            _scatter(axes, model)
            axes.set(xlim=(0.4, deepest + 0.6), ylim=(0, 1.06 * most or 1), xlabel="network depth (layer)")
            if named:
                axes.set_title(fitted(model.name, wide, 9), loc="left")
            if number:
                axes.tick_params(labelleft=False)
            else:
                axes.set_ylabel("mean attention distance (pixels)")
        _legend(page.figure.axes[1:])
        return png(page.figure)


def _scatter(axes: Axes, model: Reach) -> None:
    layers = np.arange(1, len(model.pixels) + 1)
    axes.axhline(model.even, color=QUIET, linewidth=1, linestyle=(0, (4, 3)), label="even", zorder=1)
    for head, values in enumerate(model.pixels.T):
        color, mark = COLOURS[head % len(COLOURS)], MARKS[head // len(COLOURS) % len(MARKS)]
        (points,) = axes.plot(layers, values, mark, color=color, markersize=5, label=f"head {head + 1}", zorder=2)
        points.set(markeredgecolor="white", markeredgewidth=0.4)  # heads that lie upon each other stay apart
    axes.plot(layers, model.pixels.mean(1), color=INK, linewidth=1.3, label="mean", zorder=3)
    axes.grid(visible=True)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.xaxis.set_major_locator(MaxNLocator(14, integer=True, steps=[1, 2, 5, 10], min_n_ticks=1))


def _legend(every: Sequence[Axes]) -> None:
    """One for all axes, to the right of the last: the lines first, then each head once."""
    marks = {str(line.get_label()): line for axes in every for line in axes.lines}
    names = sorted(marks, key=lambda name: name.startswith("head"))
    every[-1].legend(
        [marks[name] for name in names],
        names,
        loc="upper left",
        bbox_to_anchor=(1.02, 1.02),
        frameon=False,
        ncols=-(-len(names) // COLUMN),
        columnspacing=1,
        handletextpad=0.5,
    )
