"""What a page says in two languages: English, and Chinese beneath."""

from typing import NamedTuple

from patchwords.pages.markup import Markup, element


class Both(NamedTuple):
    """The same in two languages."""

    english: str
    chinese: str


def said(words: Both, called: str = "") -> list[Markup]:
    """English, then Chinese beneath, which begins with what the thing is called."""
    return [element("p", words.english), chinese(words.chinese, called)]


def chinese(text: str, called: str = "") -> Markup:
    """A paragraph that readers, screen readers too, are told is Chinese."""
    first = [element("b", called), "　"] if called else []
    return element("p", *first, text, class_="chinese", lang="zh-CN")
