"""What the figures have in common: their look, sheets measured in pixels, a scale beside them, the bytes of a PNG."""

import io
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from patchwords.inspection.figures.lettering import DPI as DPI
from patchwords.inspection.figures.lettering import families
from patchwords.pages.drawing import style

Numbers = NDArray[Any]

POINT = DPI / 72  # pixels
MARGIN = 24  # pixels
HEAD = MARGIN + 38 * POINT  # pixels at the top for a heading and a line beneath
INK, QUIET, LINE = "#1d2129", "#5d636e", "#c9ccd2"

LOOK: dict[str, Any] = {
    "font.size": 9,
    "text.parse_math": False,  # a dollar in a name is a dollar
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.7,
    "axes.titlesize": 9,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.fontsize": 8,
    "grid.color": LINE,
    "grid.linewidth": 0.6,
    "figure.facecolor": "white",
    "figure.dpi": DPI,
}


def look(name: str) -> Any:
    """The settings under which a figure is drawn, whatever the user's are."""
    return style(name, {**LOOK, "font.family": list(families())})


@dataclass(frozen=True, kw_only=True, slots=True)
class Sheet:
    """A figure around an area of so many pixels, whose row 0 is at the top."""

    figure: Figure
    axes: Axes
    left: float  # of the area within the figure
    top: float

    @property
    def size(self) -> Numbers:
        """Width and height of the whole figure in pixels."""
        pixels: Numbers = self.figure.get_size_inches() * DPI
        return pixels

    def place(self, left: float, top: float, width: float, height: float) -> Axes:
        """Further axes, at these pixels of the area."""
        return _axes(self.figure, self.left + left, self.top + top, width, height)

    def title(self, heading: str, below: str = "") -> None:
        """A heading at the top left, and a quieter line beneath."""
        width, height = self.size
        self.figure.text(MARGIN / width, 1 - MARGIN / height, heading, va="top", fontsize=11, fontweight="bold")
        lower = 1 - (MARGIN + 17 * POINT) / height
        self.figure.text(MARGIN / width, lower, below, va="top", fontsize=8.5, color=QUIET)

    def scale(self, values: ScalarMappable, label: str, *, left: float, top: float, height: float) -> None:
        """A colour bar with its label."""
        bar = self.figure.colorbar(values, cax=self.place(left, top, 14, height))
        bar.set_label(label)


def sheet(
    width: float,
    height: float,
    *,
    left: float = MARGIN,
    right: float = MARGIN,
    top: float = HEAD,
    bottom: float = MARGIN,
) -> Sheet:
    """An empty area of this size, between margins that are at least so wide; wide enough for a heading."""
    total = np.ceil([max(left + width + right, 4.2 * DPI), top + height + bottom])
    figure = Figure(figsize=tuple(total / DPI))
    axes = _axes(figure, left, top, width, height)
    axes.set(xlim=(0, width), ylim=(height, 0))
    axes.set_axis_off()
    return Sheet(figure=figure, axes=axes, left=left, top=top)


def _axes(figure: Figure, left: float, top: float, width: float, height: float) -> Axes:
    across, down = figure.get_size_inches() * DPI
    return figure.add_axes((left / across, 1 - (top + height) / down, width / across, height / down))


def picture(axes: Axes, pixels: Numbers, left: float, top: float, width: float, height: float, **options: Any) -> None:
    """An image at these pixels: a small one is enlarged as it is, a large one made smaller without a moiré."""
    limits = axes.get_xlim(), axes.get_ylim()
    kind = "nearest" if width >= pixels.shape[1] else "antialiased"
    extent = (left, left + width, top + height, top)
    axes.imshow(pixels, extent=extent, interpolation=kind, aspect="auto", **options)
    axes.set(xlim=limits[0], ylim=limits[1])


def frame(axes: Axes, left: float, top: float, width: float, height: float, color: str, thick: float) -> None:
    axes.add_patch(
        Rectangle((left, top), width, height, fill=False, edgecolor=color, linewidth=thick, clip_on=False, zorder=3)
    )


def png(figure: Figure) -> bytes:
    """The same bytes each time."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=DPI, metadata={"Software": None})
    return buffer.getvalue()
