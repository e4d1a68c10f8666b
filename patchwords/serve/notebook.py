"""A prediction in a notebook: the picture, where the model looked, and the probabilities as bars."""

from patchwords.data.thumbnail import thumbnail
from patchwords.pages.markup import Markup, element, name
from patchwords.pages.parts import embedded
from patchwords.pages.wording import percent
from patchwords.serve.prediction import Prediction, Ranked
from patchwords.serve.views import views

TOP = 5
SIDE = 224  # pixels

ROW = "display:flex;flex-wrap:wrap;gap:1em;align-items:center;margin:.5em 0"
IMAGE = f"max-width:{SIDE}px;border-radius:4px;margin:0"
# Half transparent, so that light and dark pages are served alike.
BAR = "background:linear-gradient(to right,rgba(64,128,224,.38) {share:.2f}%,rgba(128,128,128,.12) 0)"
CELLS = "display:flex;justify-content:space-between;gap:1.5em;padding:.15em .5em;margin:.2em 0;border-radius:4px"


def shown(prediction: Prediction) -> Markup:
    """HTML that needs nothing else; every name in it is escaped."""
    images = [
        element("img", src=embedded(thumbnail(pixels, SIDE)), alt=says, title=says, style=IMAGE)
        for says, pixels in views(prediction, SIDE).items()
    ]
    bars = [_bar(each) for each in prediction.top(TOP)]
    heading = element("div", name(prediction.name), style="font-weight:600;overflow-wrap:anywhere")
    return element("div", *images, element("div", heading, *bars, style="flex:1 1 14em;max-width:26em"), style=ROW)


def _bar(ranked: Ranked) -> Markup:
    label, share = ranked
    style = f"{CELLS};{BAR.format(share=100 * share)}"
    text = element("span", name(label), style="overflow-wrap:anywhere")
    return element("div", text, element("span", percent(share), style="white-space:nowrap"), style=style)
