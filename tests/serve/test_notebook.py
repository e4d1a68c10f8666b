"""A prediction in a notebook: markup in which every name is text."""

from html.parser import HTMLParser

import numpy as np
import pytest

from patchwords.pages.markup import LONGEST, visible
from patchwords.serve.prediction import Prediction

HOSTILE = [
    "<script>alert(1)</script>",
    '" onmouseover="alert(1)',
    "'><img src=x onerror=alert(1)>",
    "</div></div><h1>owned</h1>",
    "<!-- ",
    "&lt;b&gt;",
    "javascript:alert(1)",
    "\u202egnp.exe",
    "\x1b[31mred",
    "\udcff",
    "line\nbreak",
    "x" * 5000,
    "</style><style>*{display:none}",
]


class Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag != "img":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def answer(*classes: str, name: str = "a.png", kept: bool = True, looked: bool = True) -> Prediction:
    return Prediction(
        name=name,
        classes=classes,
        logits=np.arange(len(classes), 0, -1, dtype=np.float32),
        pixels=np.full((8, 8, 3), 90, dtype=np.uint8) if kept else None,
        attention=np.eye(4, dtype=np.float32) if looked else None,
    )


def test_it_shows_the_picture_the_overlay_and_bars() -> None:
    page = Page(answer("tulip", "rose", "daisy")._repr_html_())
    assert [attributes["alt"] for tag, attributes in page.tags if tag == "img"] == [
        "as the model sees it",
        "where it looked",
    ]
    assert [text for text in page.texts if "%" not in text] == ["a.png", "tulip", "rose", "daisy"]
    widths = [str(attributes.get("style")).partition(") ")[2][:6] for tag, attributes in page.tags if tag == "div"]
    assert [width for width in widths if width] == ["66.52%", "24.47%", "9.00%,"]
    assert [text for text in page.texts if "%" in text] == ["66.5\xa0%", "24.5\xa0%", "9.0\xa0%"]


@pytest.mark.parametrize(("kept", "looked", "images"), [(True, True, 2), (True, False, 1), (False, False, 0)])
def test_what_was_not_kept_is_left_out(kept: bool, looked: bool, images: int) -> None:
    page = Page(answer("a", "b", kept=kept, looked=looked)._repr_html_())
    assert [tag for tag, _ in page.tags].count("img") == images


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_stay_text(name: str) -> None:
    page = Page(answer(name, f"{name}2", name=name)._repr_html_())
    assert page.open == []
    assert {tag for tag, _ in page.tags} == {"div", "img", "span", "bdi"}
    assert all(set(attributes) <= {"style", "src", "alt", "title"} for _, attributes in page.tags)
    assert all(str(attributes["src"]).startswith("data:image/") for tag, attributes in page.tags if tag == "img")
    if len(name) <= LONGEST:
        assert visible(name, keep="") in page.texts


def test_it_shows_five_classes_of_many_and_is_small() -> None:
    found = answer(*(f"class {number}" for number in range(1000)))._repr_html_()
    assert len([text for text in Page(found).texts if text.startswith("class")]) == 5
    assert len(found) < 60_000
