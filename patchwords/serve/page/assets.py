"""The files of the page by a fixed table of names: nobody who asks for one chooses a path."""

from dataclasses import dataclass
from functools import cache
from importlib import resources

from patchwords.serve.page.samples import SAMPLES, sample

INDEX, STYLE = "index.html", "page.css"
MODULES = (
    "words.js",
    "matrix.js",
    "paint.js",
    "plot.js",
    "pointing.js",
    "exhibit.js",
    "service.js",
    "intake.js",
    "page.js",
)
HTML, CSS, JS, PNG = (
    "text/html; charset=utf-8",
    "text/css; charset=utf-8",
    "text/javascript; charset=utf-8",
    "image/png",
)


@dataclass(frozen=True)
class Asset:
    """A file of the page and what it is called in HTTP."""

    kind: str
    data: bytes


@cache
def index() -> Asset:
    """What is given out at /."""
    return Asset(HTML, text(INDEX).encode())


@cache
def assets() -> dict[str, Asset]:
    """What is given out at /page/NAME."""
    scripts = {name: Asset(JS, text(name).encode()) for name in MODULES}
    pictures = {f"{name}.png": Asset(PNG, sample(name)) for name in SAMPLES}
    return {STYLE: Asset(CSS, text(STYLE).encode()), **scripts, **pictures}


def text(name: str) -> str:
    """A file that lies here."""
    return resources.files("patchwords.serve.page").joinpath(name).read_text("utf-8")
