"""The frame of every page: a head that lets nothing in from outside, a row of links, sections, a foot."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources

from patchwords import __version__
from patchwords.pages.markup import Markup, element

POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


@dataclass(frozen=True, kw_only=True, slots=True)
class Section:
    """A part of the page with a heading; one without content is left out."""

    heading: str
    content: tuple[Markup, ...]

    @property
    def anchor(self) -> str:
        return self.heading.lower().replace(" ", "-")


def page(title: str, top: Markup, sections: Sequence[Section]) -> str:
    """A whole page, complete in itself."""
    style = resources.files("patchwords.pages").joinpath("page.css").read_text("utf-8")
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", title),
        element("style", Markup(style)),
    )
    shown = [section for section in sections if section.content]
    links = [element("a", section.heading, href=f"#{section.anchor}") for section in shown]
    parts = [element("section", element("h2", part.heading), *part.content, id=part.anchor) for part in shown]
    footer = element("footer", f"Written by patchwords {__version__}. The page needs no network.")
    body = element("body", top, element("nav", *links), element("main", *parts), footer)
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n"
