"""Two pictures: what larger pictures cost, and whether the fast settings learn the same."""

from collections.abc import Mapping
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from patchwords.bench.learning import SMOOTHED, smoothed
from patchwords.inspection.figures.canvas import LINE, QUIET, look, png
from patchwords.inspection.figures.distance import COLOURS

GIB = 1 << 30
THOUSANDS = FuncFormatter(lambda number, _: f"{number:,.0f}")
WORDS = {"inference": "answering", "training": "learning"}
STYLES = ("-", ":", "-", "--")


def growth(report: Mapping[str, Any]) -> bytes:
    """Speed and memory over the number of tokens."""
    with look("growth"):
        figure = Figure(figsize=(8.4, 3.6), layout="constrained")
        speed, memory = figure.subplots(1, 2)
        for number, (bench, word) in enumerate(WORDS.items()):
            rows = [row for row in report["rows"] if row["bench"] == bench]
            tokens = [row["further"]["tokens"] for row in rows]
            mark: dict[str, Any] = {"marker": "o", "color": COLOURS[number], "label": word}
            speed.loglog(tokens, [row["images_per_second"] for row in rows], **mark)
            if all(row["memory"] is not None for row in rows):
                memory.plot(tokens, [row["memory"] / GIB for row in rows], **mark)
        one = report["rows"][0]
        speed.set(title=f"{one['model']}, {one['precision']}, batch {one['batch']}", ylabel="images a second")
        memory.set(title="memory at most", ylabel="GiB", ylim=(0, None), xlim=(0, None))
        speed.yaxis.set_major_formatter(THOUSANDS)
        speed.set_xticks(sorted({row["further"]["tokens"] for row in report["rows"]}))
        speed.tick_params(which="minor", labelbottom=False, labelleft=False, length=0)
        for axes in (speed, memory):
            axes.set_xlabel("tokens of a picture")
            axes.xaxis.set_major_formatter(THOUSANDS)
            _finish(axes)
        return png(figure)


def learning(report: Mapping[str, Any]) -> bytes:
    """The losses of every run, as they were and smoothed."""
    with look("learning"):
        figure = Figure(figsize=(6.4, 3.8), layout="constrained")
        axes = figure.subplots()
        for number, (name, losses) in enumerate(report["curves"].items()):
            axes.plot(losses, color=COLOURS[number], linewidth=0.4, alpha=0.35)
            steps = range(SMOOTHED // 2, SMOOTHED // 2 + len(losses) - SMOOTHED + 1)
            axes.plot(steps, smoothed(losses), STYLES[number % len(STYLES)], color=COLOURS[number], label=name)
        one = report["rows"][0]
        axes.set(xlabel="step", ylabel="loss")
        axes.set_title(f"{one['model']} at {one['image'][0]} pixels, batch {one['batch']}", loc="left")
        _finish(axes)
        return png(figure)


def _finish(axes: Axes) -> None:
    axes.grid(visible=True, color=LINE)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    if axes.lines:
        axes.legend(frameon=False, labelcolor=QUIET)
