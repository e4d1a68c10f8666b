"""A prediction as a picture: what the model saw, where it looked (figure 6), and its probabilities as bars."""

import re
from pathlib import Path

from matplotlib.patches import Rectangle

from patchwords.inspection.figures.canvas import HEAD, INK, MARGIN, POINT, QUIET, Sheet, look, picture, png, sheet
from patchwords.inspection.figures.lettering import fitted
from patchwords.pages.wording import percent
from patchwords.serve.prediction import Prediction
from patchwords.serve.views import views
from patchwords.weights.files import writing

MOST_BARS = 20
MOST_KEPT = 40  # letters of a picture's name in its figure's
SIDE = 400  # pixels of the longer side of the picture
GAP = 40
CAPTION = 44  # pixels below a picture for what it is
BARS = 560  # their length, in pixels
ROW = 66  # pixels a bar and its name
THICK = 16
BEST, OTHER, EMPTY = "#2f6fde", "#9aa5b8", "#eef0f3"


def write_figure(prediction: Prediction, path: Path, top: int) -> None:
    """The figure as a PNG file."""
    data = draw(prediction, top)
    with writing(path, len(data)) as aside:
        aside.write_bytes(data)


def file_name(number: int, total: int, name: str) -> str:
    """A name for a figure that nobody else chose: the picture's number, and of its name what is harmless."""
    digits = max(4, len(str(total)))
    harmless = re.sub(r"[^\w.]+", "-", Path(name).stem)[:MOST_KEPT].strip("-.")
    return f"{number:0{digits}}-{harmless or 'picture'}.png"


def draw(prediction: Prediction, top: int) -> bytes:
    """The bytes of the figure; of very many classes the first are drawn, and the rest counted."""
    shown = views(prediction, SIDE)
    height, width = max((pixels.shape[:2] for pixels in shown.values()), default=(0, 0))  # all are of one size
    asked = min(top, len(prediction.classes))
    bars = min(asked, MOST_BARS)
    left = len(shown) * (width + GAP)
    with look("prediction"):
        tall = max(height + CAPTION, bars * ROW + (CAPTION if asked > bars else 0))
        page = sheet(left + BARS, tall, top=HEAD - 15 * POINT)
        page.title(fitted(prediction.name, page.size[0] - 2 * MARGIN, 11, "bold"))
        for number, (says, pixels) in enumerate(shown.items()):
            start = number * (width + GAP)
            picture(page.axes, pixels, start, 0, width, height)
            page.axes.text(start, height + 10, fitted(says, width, 8.5), va="top", fontsize=8.5, color=QUIET)
        _bars(page, prediction, left, bars, asked - bars)
        return png(page.figure)


def _bars(page: Sheet, prediction: Prediction, left: float, count: int, more: int) -> None:
    axes = page.axes
    for number, (label, share) in enumerate(prediction.top(count)):
        top, weight = number * ROW, "bold" if number == 0 else "normal"
        text = fitted(label, BARS - 110, 9.5, weight)
        axes.text(left, top + 24, text, va="baseline", fontsize=9.5, fontweight=weight)
        axes.text(left + BARS, top + 24, percent(share), va="baseline", ha="right", fontsize=9.5, color=INK)
        for length, color in ((BARS, EMPTY), (share * BARS, OTHER if number else BEST)):
            axes.add_patch(Rectangle((left, top + 34), length, THICK, color=color, linewidth=0))
    if more:
        axes.text(left, count * ROW + 24, f"and {more:,} more", va="baseline", fontsize=8.5, color=QUIET)
