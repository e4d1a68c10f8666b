"""The page of an inspection: two languages, whole in itself, and safe whatever things are called."""

import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from patchwords.inspection.exhibits.exhibit import Exhibit
from patchwords.inspection.figures.filters import filters
from patchwords.inspection.page import page
from patchwords.inspection.words import FIGURES, at_the_top, means, near_and_far
from patchwords.pages.both import Both
from patchwords.weights.card import Card
from patchwords.weights.subject import Subject

BAD = "<img src=x onerror=alert(1)>\u202e\"'&"


class Reader(HTMLParser):
    """Counts tags, checks that they close, and keeps the text by language."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[tuple[str, dict[str, str | None]]] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {"en": [], "zh-CN": []}
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in ("img", "meta"):
            self.open.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop()[0] == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1][0] != "style":
            language = next(given["lang"] for _, given in reversed(self.open) if "lang" in given)
            self.texts[str(language)].append(data)


@pytest.fixture(scope="module")
def png() -> bytes:
    return filters(np.zeros((3, 4, 4, 3), dtype=np.uint8), [0.5, 0.3, 0.1], heading="filters")


@pytest.fixture
def subject(small_configs) -> Subject:
    config = small_configs["plain"]
    return Subject("my model", config.build(), Card(model=config))


@pytest.fixture
def drawn(png: bytes) -> dict[str, Exhibit]:
    numbers = {"shares": [0.5, 0.3, 0.1], "near": 0.25, "far": -0.5, "models": [{"mean": [10.0, 90.0]}]}
    words = {
        "filters": "root",
        "positions": "positions",
        "distance": "distance",
        "rollout": "evidence",
        "patch": "patch",
    }
    return {name: Exhibit(words=key, png=png, numbers=numbers) for name, key in words.items()}


def test_every_figure_has_a_heading_and_both_languages(subject: Subject, drawn: dict[str, Exhibit]) -> None:
    read = Reader(page(subject, (), drawn, {}))
    english, chinese = (" ".join(read.texts[language]) for language in ("en", "zh-CN"))
    for each in drawn.values():
        words = FIGURES[each.words]
        assert words.heading.english in english
        assert words.explanation.english in english
        assert words.heading.chinese in chinese
        assert words.explanation.chinese in chinese
    assert [given.get("lang") for tag, given in read.tags if tag == "html"] == ["en"]
    assert not re.search("[\u4e00-\u9fff]", english)
    assert re.search("[\u4e00-\u9fff]", chinese)


def test_it_needs_nothing_from_outside(subject: Subject, drawn: dict[str, Exhibit]) -> None:
    read = Reader(page(subject, (), drawn, {}))
    images = [given["src"] for tag, given in read.tags if tag == "img"]
    assert len(images) == 5
    assert all(str(source).startswith("data:image/png;base64,") for source in images)
    assert all(given.get("alt") for tag, given in read.tags if tag == "img")
    assert {tag for tag, _ in read.tags}.isdisjoint({"script", "link", "iframe", "object"})
    assert all(str(given["href"]).startswith("#") for _, given in read.tags if "href" in given)


def test_numbers_stand_at_the_top(subject: Subject, drawn: dict[str, Exhibit]) -> None:
    english = " ".join(Reader(page(subject, (), drawn, {})).texts["en"])
    for number in ("90.0\N{NO-BREAK SPACE}%", "0.25 / -0.50", "10.0 → 90.0"):
        assert number in english


def test_what_is_missing_is_a_sentence(subject: Subject, drawn: dict[str, Exhibit]) -> None:
    there = {"filters": drawn["filters"]}
    read = Reader(page(subject, (), there, {"positions": "a ResNet adds nothing for a place"}))
    assert "A ResNet adds nothing for a place." in read.texts["en"]
    assert sum(tag == "img" for tag, _ in read.tags) == 1
    assert FIGURES["positions"].explanation.english not in read.texts["en"]


def test_hostile_names_and_notes_are_text(subject: Subject, drawn: dict[str, Exhibit]) -> None:
    remarks = (means(BAD, "other", (1.0, 2.0)),)
    spoiled = {**drawn, "distance": replace(drawn["distance"], remarks=remarks)}
    text = page(replace(subject, name=BAD), (BAD,), spoiled, {})
    read = Reader(text)
    assert sum(tag == "img" for tag, _ in read.tags) == 5
    assert "onerror=alert(1)>" not in text
    assert "\u202e" not in text


def test_remarks_come_in_both_languages() -> None:
    first = means("one", "two", (12.0, 10.5))
    assert "1.5 less" in first.english
    assert "少 1.5 像素" in first.chinese
    assert "3.0 more" in means("one", "two", (12.0, 15.0)).english
    assert "-0.000" not in near_and_far(-0.0001, 0.0).english
    assert "no classifier" in at_the_top(8, 8, 0).english
    assert isinstance(first, Both)
