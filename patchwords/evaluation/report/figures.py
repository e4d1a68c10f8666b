"""Figures of what a model said: reliability, a confusion matrix of many classes, accuracy by the number of shots."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator
from numpy.typing import NDArray

from patchwords.evaluation.classify import Bins
from patchwords.evaluation.fewshot import FewShot
from patchwords.pages.drawing import ACCENT, INK, PERCENT, ROUND, VALIDATION, style, svg
from patchwords.pages.markup import Markup

Numbers = NDArray[Any]

MOST_BLOCKS = 250  # a side of the confusion matrix; more classes are counted together


def reliability(bins: Bins, *, says: str) -> Markup:
    """How often the model was right against how sure it was; on the diagonal both are the same."""
    with style("reliability"):
        figure = Figure(figsize=(4.2, 3.9))
        axes = figure.add_subplot(xlabel="confidence", ylabel="accuracy", xlim=(0, 1), ylim=(0, 1), aspect="equal")
        filled = bins.count > 0
        left, width = bins.edges[:-1][filled], np.diff(bins.edges)[filled]
        axes.bar(left + width / 2, bins.accuracy[filled], 0.86 * width, color=VALIDATION, alpha=0.75, zorder=2)
        axes.plot([0, 1], [0, 1], color=INK, linewidth=1, linestyle=(0, (4, 3)), zorder=3)
        axes.plot(
            bins.confidence[filled], bins.accuracy[filled], "o", color=INK, markersize=3.5, zorder=4, clip_on=False
        )
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(PERCENT)
        return svg(figure, "reliability", says)


def matrix(true: Numbers, predicted: Numbers, classes: int, *, says: str) -> Markup:
    """A confusion matrix that has too many classes for their names: by the number of the class, rows are true."""
    shares, step = blocks(true, predicted, classes)
    pixels = np.empty((*shares.shape, 4))
    pixels[..., :3], pixels[..., 3] = ACCENT, np.sqrt(shares)  # the root makes rare mistakes visible
    with style("matrix"):
        figure = Figure(figsize=(6, 5.7))
        axes = figure.add_subplot(xlabel="predicted class", ylabel="true class")
        edge = len(shares) * step - 0.5
        axes.imshow(pixels, interpolation="none", extent=(-0.5, edge, edge, -0.5))
        axes.grid(visible=False)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(MaxNLocator(8, steps=ROUND, integer=True))
        return svg(figure, "matrix", says)


def blocks(true: Numbers, predicted: Numbers, classes: int) -> tuple[Numbers, int]:
    """The matrix as shares of its rows, and how many classes in a row are counted together."""
    step = -(-classes // MOST_BLOCKS)
    side = -(-classes // step)
    counts = np.bincount(true // step * side + predicted // step, minlength=side * side).reshape(side, side)
    return counts / np.maximum(counts.sum(1, keepdims=True), 1), step


def shots(few: FewShot, *, says: str) -> Markup:
    """Accuracy over the shots of a class: the mean of the draws, and a point for each of them."""
    order = np.argsort(few.shots)
    counts, draws = np.array(few.shots)[order], few.accuracy[order, :, 0]  # (shots), (shots, seeds)
    with style("shots"):
        figure = Figure(figsize=(5.2, 3.1))
        axes = figure.add_subplot(xlabel="pictures of each class", ylabel="accuracy", xscale="log")
        axes.plot(counts, draws, "o", color=INK, markersize=3, alpha=0.45, zorder=3)
        axes.plot(counts, draws.mean(1), color=VALIDATION, marker="o", markersize=5, zorder=4)
        axes.xaxis.set_major_locator(FixedLocator(counts.tolist()))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter("{x:.0f}")
        axes.yaxis.set_major_locator(MaxNLocator(5, steps=ROUND))
        axes.yaxis.set_major_formatter(PERCENT)
        axes.margins(x=0.06, y=0.12)
        return svg(figure, "shots", says)
