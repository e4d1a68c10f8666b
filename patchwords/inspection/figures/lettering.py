"""Names that strangers chose, as a figure can write them: no formulas, no letters that the fonts lack, not too wide."""

from functools import cache
from typing import Any

from matplotlib import font_manager
from matplotlib.backends.backend_agg import RendererAgg
from matplotlib.font_manager import FontProperties

from patchwords.pages.markup import visible

DPI = 160  # of every figure
FONT = "DejaVu Sans"  # comes with matplotlib
EASTERN = (  # for Chinese, Japanese and Korean, where one of them is there
    "Noto Sans CJK SC",
    "Noto Sans SC",
    "Source Han Sans SC",
    "PingFang SC",
    "Hiragino Sans GB",
    "Microsoft YaHei",
    "SimHei",
    "WenQuanYi Micro Hei",
    "WenQuanYi Zen Hei",
    "Arial Unicode MS",
)
MOST = 400  # letters that are looked at


@cache
def families() -> tuple[str, ...]:
    """The fonts to write with; the later ones have what the first lacks."""
    there = {font.name for font in font_manager.fontManager.ttflist}
    return (FONT, *[name for name in EASTERN if name in there][:1])


def lettered(text: str, longest: int = MOST) -> str:
    """The text, cut in the middle where it is long; letters that cannot be seen, or that no font has, are spelled."""
    plain = visible(shortened(text, MOST), keep="")
    if not plain.isascii():
        plain = "".join(letter if ord(letter) in _letters() else _spelled(letter) for letter in plain)
    return shortened(plain, longest)


def shortened(text: str, longest: int) -> str:
    """The beginning and the end of a long text: a file's ending stays."""
    last = longest // 2
    return text if len(text) <= longest else f"{text[: longest - last - 1]}…{text[len(text) - last :]}"


def fitted(text: str, width: float, size: float, weight: str = "normal") -> str:
    """As much of a name as so many pixels hold in letters of this size in points."""
    plain = lettered(text)
    least, most = 0, len(plain)
    while least < most:  # the longest that fits lies between the two
        middle = (least + most + 1) // 2
        if measured(shortened(plain, middle), size, weight) <= width:
            least = middle
        else:
            most = middle - 1
    return shortened(plain, least)


def measured(text: str, size: float, weight: str = "normal") -> float:
    """The width of a text in pixels."""
    font = FontProperties(family=list(families()), size=size, weight=weight)
    return float(_renderer().get_text_width_height_descent(text, font, ismath=False)[0])


@cache
def _renderer() -> Any:
    draw: Any = RendererAgg  # which has no types
    return draw(1, 1, DPI)


@cache
def _letters() -> frozenset[int]:
    """All that the fonts can write."""
    fonts = [font_manager.get_font(font_manager.findfont(family)) for family in families()]
    return frozenset(code for font in fonts for code in font.get_charmap())


def _spelled(letter: str) -> str:
    return letter.encode("unicode_escape").decode("ascii")
