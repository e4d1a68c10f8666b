"""Figures of a study: shares over what was varied, a line or a row of points for each model, seeds as their spread."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator

from patchwords.inspection.figures.canvas import look, png
from patchwords.inspection.figures.lettering import lettered
from patchwords.pages.drawing import PERCENT, ROUND
from patchwords.studies.compute import unit
from patchwords.studies.results import Measure

COLOURS = ("#2f6fde", "#d65430", "#1f7a4d", "#8b5fbf", "#a07a10", "#5d636e")
MARKERS = ("o", "s", "^", "D", "v", "P")
WIDE, HIGH = 4.0, 3.3  # inches of a panel
DODGE = 0.12  # of the way to the next name, between the points of two lines over the same name
MOST_TICKS = 7
LONGEST = 24  # letters of a name

Scale = Literal["names", "shares", "rates", "compute"]


class Point(NamedTuple):
    """A score, and over what it stands."""

    x: float | str
    measure: Measure


@dataclass(frozen=True, kw_only=True)
class Line:
    """The points of one model or one way."""

    name: str
    points: Sequence[Point]


def over(name: str, found: Mapping[Any, Measure | None]) -> Line:
    """The scores over their places; where there is none, there is no point."""
    return Line(name=name, points=[Point(x, measure) for x, measure in found.items() if measure])


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One of the drawings that stand side by side; `scale` says what runs across."""

    title: str
    across: str
    lines: Sequence[Line]
    scale: Scale
    joined: bool = True  # from point to point; names never are


def in_units(panel: Panel) -> Panel:
    """A panel over exaFLOPs, in the unit that fits the largest of them."""
    name, many = unit(max((float(point.x) for line in panel.lines for point in line.points), default=0.0))
    lines = [
        replace(line, points=[Point(many * float(x), measure) for x, measure in line.points]) for line in panel.lines
    ]
    return replace(panel, across=f"{name} {panel.across}", lines=lines)


def figure(name: str, panels: Sequence[Panel]) -> bytes:
    """A PNG of all panels, with one legend for the lines that they share."""
    with look(name):
        drawn = Figure(figsize=(WIDE * len(panels) + 1.3, HIGH), layout="constrained")
        names = list(dict.fromkeys(line.name for panel in panels for line in panel.lines))
        handles: dict[str, Any] = {}
        for axes, panel in zip(drawn.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
            handles |= _draw(axes, panel, names)
        if len(names) > 1:
            labels = [lettered(name, LONGEST) for name in handles]
            drawn.legend(list(handles.values()), labels, loc="outside right center", frameon=False)
        return png(drawn)


def _draw(axes: Axes, panel: Panel, names: Sequence[str]) -> dict[str, Any]:
    """The lines of a panel, in the colours that they have in all of them; how each looks, by its name."""
    axes.set_title(panel.title, loc="left", fontweight="bold")
    axes.set_xlabel(panel.across)
    places = list(dict.fromkeys(point.x for line in panel.lines for point in line.points))
    handles: dict[str, Any] = {}
    for line in panel.lines:
        which = names.index(line.name)
        middle = (len(panel.lines) - 1) / 2
        aside = DODGE * (panel.lines.index(line) - middle) if panel.scale == "names" else 0.0
        xs = [places.index(point.x) + aside if panel.scale == "names" else float(point.x) for point in line.points]
        handles[line.name] = axes.errorbar(
            xs,
            [point.measure.mean for point in line.points],
            yerr=spread if any(spread := [point.measure.deviation for point in line.points]) else None,
            color=COLOURS[which % len(COLOURS)],
            marker=MARKERS[(which + which // len(COLOURS)) % len(MARKERS)],
            linestyle="-" if panel.joined and panel.scale != "names" else "none",
            markersize=5,
            linewidth=1.4,
            elinewidth=1.0,
            capsize=2.5,
        )
    _across(axes, panel, places)
    axes.set_ylabel("accuracy")
    axes.yaxis.set_major_locator(MaxNLocator(6, steps=ROUND))
    axes.yaxis.set_major_formatter(PERCENT)
    axes.grid(visible=True)
    axes.set_axisbelow(True)
    axes.margins(x=0.08, y=0.12)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return handles


def _across(axes: Axes, panel: Panel, places: Sequence[float | str]) -> None:
    """The marks below: names where they stand, few and readable numbers on a scale of powers."""
    if panel.scale == "names":
        slanted: dict[str, Any] = {"rotation": 30, "ha": "right", "rotation_mode": "anchor"} if _is_long(places) else {}
        axes.set_xticks(range(len(places)), [lettered(str(place), LONGEST) for place in places], **slanted)
        axes.set_xlim(-0.6, len(places) - 0.4)
        return
    axes.set_xscale("log")
    values = sorted(float(place) for place in places)
    if panel.scale == "compute" or len(values) > MOST_TICKS:
        wide = not values or values[-1] > 30 * values[0]
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0,) if wide else (1.0, 2.0, 5.0)))
    else:
        axes.xaxis.set_major_locator(FixedLocator(values))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(PERCENT if panel.scale == "shares" else FuncFormatter(lambda x, _: _short(x)))


def _is_long(places: Sequence[float | str]) -> bool:
    return sum(len(str(place)) + 2 for place in places) > 42


def _short(number: float) -> str:
    """1e-5 and 0.003."""
    if number and not 1e-3 <= abs(number) < 1e5:
        digits, power = f"{number:.0e}".split("e")
        return f"{digits}e{int(power)}"
    return f"{number:.6g}"
