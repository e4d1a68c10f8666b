"""Drawings as inline SVG: they take the page's colours and font, and hold no word of the user's."""

import io
import re
from collections.abc import Mapping
from typing import Any

import matplotlib
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from patchwords.pages.markup import Markup, element

# Colours that stand for those of the page, which knows whether it is light or dark.
PAGE = {"#010203": "currentColor", "#020304": "var(--training)", "#030405": "var(--validation)"}
INK, TRAINING, VALIDATION = PAGE
ACCENT = (0.18, 0.44, 0.87)  # of pixels, which cannot change with the page
ROUND = (1, 2, 2.5, 5, 10)  # steps of an axis
PERCENT = FuncFormatter(lambda share, _: f"{100 * share:.3g} %")

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


def style(name: str, settings: Mapping[Any, Any] = STYLE) -> Any:
    """Our settings over matplotlib's defaults, whatever the user's are; inner names depend on the figure's alone."""
    defaults: dict[Any, Any] = dict(matplotlib.rcParamsDefault)
    defaults = {key: value for key, value in defaults.items() if not key.startswith("backend")}
    return matplotlib.rc_context({**defaults, **settings, "svg.hashsalt": name})


def svg(figure: Figure, name: str, says: str) -> Markup:
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
