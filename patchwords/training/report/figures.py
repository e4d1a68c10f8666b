"""The figures of the report as inline SVG: they take the page's colours and font, and hold no word of the user's."""

import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator
from numpy.typing import NDArray

from patchwords.evaluation.classify import Bins
from patchwords.training.report.markup import Markup, element

Numbers = NDArray[Any]
Unit = Literal["plain", "percent", "power", "speed"]

MOST_POINTS = 240  # of a curve; more are joined into means with a band from the least to the most
FEW_POINTS = 25  # so few are drawn one by one
ROUND = (1, 2, 2.5, 5, 10)  # steps of an axis
MOST_BLOCKS = 250  # a side of the confusion matrix; more classes are counted together

# Colours that stand for those of the page, which knows whether it is light or dark.
PAGE = {"#010203": "currentColor", "#020304": "var(--training)", "#030405": "var(--validation)"}
INK, TRAINING, VALIDATION = PAGE
ACCENT = (0.18, 0.44, 0.87)  # of pixels, which cannot change with the page

STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "font.size": 11,
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.7,
    "axes.grid": True,
    "grid.color": INK,
    "grid.alpha": 0.13,
    "grid.linewidth": 0.7,
    "lines.linewidth": 1.8,
    "figure.constrained_layout.use": True,
}
FORMATS: dict[Unit, FuncFormatter | None] = {
    "plain": None,
    "percent": FuncFormatter(lambda share, _: f"{100 * share:.3g} %"),
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
    with _style(name):
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
        return _svg(figure, name, says)


def reliability(bins: Bins, *, says: str) -> Markup:
    """How often the model was right against how sure it was; on the diagonal both are the same."""
    with _style("reliability"):
        figure = Figure(figsize=(4.2, 3.9))
        axes = figure.add_subplot(xlabel="confidence", ylabel="accuracy", xlim=(0, 1), ylim=(0, 1), aspect="equal")
        filled = bins.count > 0
        left, width = bins.edges[:-1][filled], np.diff(bins.edges)[filled]
        axes.bar(left + width / 2, bins.accuracy[filled], 0.86 * width, color=VALIDATION, alpha=0.75, zorder=2)
        axes.plot([0, 1], [0, 1], color=INK, linewidth=1, linestyle=(0, (4, 3)), zorder=3)
        axes.plot(bins.confidence[filled], bins.accuracy[filled], "o", color=INK, markersize=3.5, zorder=4)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(FORMATS["percent"] or "")
        return _svg(figure, "reliability", says)


def matrix(true: Numbers, predicted: Numbers, classes: int, *, says: str) -> Markup:
    """A confusion matrix that has too many classes for their names: by the number of the class, rows are true."""
    step = -(-classes // MOST_BLOCKS)
    side = -(-classes // step)
    blocks = np.bincount(true // step * side + predicted // step, minlength=side * side).reshape(side, side)
    shares = blocks / np.maximum(blocks.sum(1, keepdims=True), 1)
    pixels = np.empty((*shares.shape, 4))
    pixels[..., :3], pixels[..., 3] = ACCENT, np.sqrt(shares)  # the root makes rare mistakes visible
    with _style("matrix"):
        figure = Figure(figsize=(6, 5.7))
        axes = figure.add_subplot(xlabel="predicted class", ylabel="true class")
        edge = side * step - 0.5
        axes.imshow(pixels, interpolation="none", extent=(-0.5, edge, edge, -0.5))
        axes.grid(visible=False)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(MaxNLocator(8, steps=ROUND, integer=True))
        return _svg(figure, "matrix", says)


def _draw(axes: Axes, line: Curve) -> None:
    color = {"training": TRAINING, "validation": VALIDATION}[line.who]
    parts = min(len(line.values), MOST_POINTS)
    bands = [part for part in np.array_split(np.stack([line.epochs, line.values], 1), max(parts, 1)) if len(part)]
    epochs, means = np.array([part.mean(0) for part in bands]).reshape(-1, 2).T
    if len(line.values) > MOST_POINTS:
        low, high = ([limit(part[:, 1]) for part in bands] for limit in (np.min, np.max))
        axes.fill_between(epochs, low, high, color=color, alpha=0.2, linewidth=0)
    axes.plot(epochs, means, color=color, marker="o" if len(bands) <= FEW_POINTS else "", markersize=3.2)


def _style(name: str) -> Any:
    """Our settings over matplotlib's defaults, whatever the user's are; inner names depend on the figure's alone."""
    defaults: dict[Any, Any] = dict(matplotlib.rcParamsDefault)
    defaults = {key: value for key, value in defaults.items() if not key.startswith("backend")}
    return matplotlib.rc_context({**defaults, **STYLE, "svg.hashsalt": name})


def _svg(figure: Figure, name: str, says: str) -> Markup:
    """The drawing alone, without a head, a style or names that another figure on the page might have too."""
    buffer = io.StringIO()
    nothing: Mapping[str, Any] = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    figure.savefig(buffer, format="svg", transparent=True, metadata=nothing)
    text = buffer.getvalue()
    drawing = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>", "", text[text.index("<svg") :], flags=re.DOTALL)
    wanted = set(re.findall(r'(?:url\(|href=")#([^)"]+)', drawing))
    drawing = re.sub(r' id="([^"]+)"', lambda found: found[0] if found[1] in wanted else "", drawing)
    drawing = re.sub(r' (?:width|height)="[\d.]+pt"', "", drawing, count=2)  # as wide as its place on the page
    for color, of_page in PAGE.items():
        drawing = drawing.replace(color, of_page)
    return element("div", Markup(drawing), class_=f"drawing {name}", role="img", aria_label=says)
