"""What pages are built of: tables that scroll, pictures within the page, names with values, tiles of numbers."""

import base64
import struct
from collections.abc import Iterable, Sequence

from patchwords.errors import DataError
from patchwords.pages.markup import Markup, element, together

Row = Sequence[str]
SHRUNK = 0.72  # of its pixels a figure takes on the page: sharp on fine screens


def table(head: Row, rows: Iterable[Row], *, says: str, class_: str = "") -> Markup:
    """A table that scrolls within the page; every column but the first is for numbers unless `class_` is words."""
    cells = [element("th", text, scope="col") for text in head]
    body = [element("tr", *(element("td", text) for text in row)) for row in rows]
    inside = (element("thead", element("tr", *cells)), element("tbody", *body))
    return scroll(element("table", *inside, class_=class_ or "numbers"), says=says)


def scroll(child: Markup, *, says: str) -> Markup:
    """What is wider or longer than its place can be scrolled, with the keyboard too."""
    return element("div", child, class_="scroll", tabindex="0", role="region", aria_label=says)


def embedded(picture: bytes) -> str:
    """A picture's bytes as an address that needs no network."""
    for start, kind in {b"\xff\xd8\xff": "jpeg", b"\x89PNG\r\n\x1a\n": "png"}.items():
        if picture.startswith(start):
            return f"data:image/{kind};base64,{base64.b64encode(picture).decode()}"
    raise DataError("the picture is neither a JPEG nor a PNG")


def sheet(png: bytes, says: str, caption: str) -> Markup:
    """A figure in the page on white, which can be moved where it is wider than its place."""
    width, _ = struct.unpack(">II", png[16:24])  # of the header
    image = element("img", src=embedded(png), alt=says, width=str(round(SHRUNK * width)))
    pan = element("div", image, class_="pan", tabindex="0", role="region", aria_label=says)
    return element("figure", pan, element("figcaption", caption), class_="sheet")


def facts(rows: Iterable[tuple[str, str]]) -> Markup:
    """Names and values in two columns."""
    pairs = [together((element("dt", key), element("dd", value))) for key, value in rows]
    return element("dl", *pairs)


def tiles(rows: Iterable[tuple[str, str, str]]) -> Markup:
    """Numbers in a row at the top of a page, each with its name above and a remark below."""
    boxes = [
        element("div", element("dt", key), element("dd", value), element("dd", note, class_="note"))
        for key, value, note in rows
    ]
    return element("dl", *boxes)
