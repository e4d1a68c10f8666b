"""index.html: every figure with its explanation in two languages, complete in itself."""

from collections.abc import Iterator, Mapping, Sequence

from patchwords.inspection.exhibits.exhibit import Exhibit
from patchwords.inspection.words import ABSENT, FIGURES, at_the_top
from patchwords.pages.both import chinese, said
from patchwords.pages.markup import Markup, element, name
from patchwords.pages.page import Section
from patchwords.pages.page import page as framed
from patchwords.pages.parts import sheet, tiles
from patchwords.pages.wording import percent, plural
from patchwords.weights.subject import Subject


def page(subject: Subject, notes: Sequence[str], exhibits: Mapping[str, Exhibit], missing: Mapping[str, str]) -> str:
    """The figures in their order, and a sentence for each that there is not."""
    shown = [figure for figure in FIGURES if figure in exhibits or figure in missing]
    sections = [_section(figure, exhibits.get(figure), missing.get(figure, "")) for figure in shown]
    return framed(f"Inspection of {subject.name}", _header(subject, notes, exhibits), sections)


def _header(subject: Subject, notes: Sequence[str], exhibits: Mapping[str, Exhibit]) -> Markup:
    about = at_the_top(*subject.card.preprocess.size, subject.card.model.classes)
    parts = [element("h1", "Inspection of ", name(subject.name)), *said(about)]
    if numbers := list(_headline(exhibits)):
        parts.append(tiles(numbers))
    if notes:
        parts.append(element("ul", *(element("li", note) for note in notes), class_="remarks"))
    return element("header", *parts)


def _headline(exhibits: Mapping[str, Exhibit]) -> Iterator[tuple[str, str, str]]:
    """A number or two of each figure that has any."""
    if "filters" in exhibits:
        shares = exhibits["filters"].numbers["shares"]
        yield "filters", percent(sum(shares)), f"of the variance in {plural(len(shares), 'component')}"
    if "positions" in exhibits and exhibits["positions"].numbers["far"] is not None:
        near, far = (round(exhibits["positions"].numbers[key], 2) + 0 for key in ("near", "far"))
        yield "positions", f"{near:.2f} / {far:.2f}", "similarity of near / far patches"
    if "distance" in exhibits:
        means = exhibits["distance"].numbers["models"][0]["mean"]
        yield "attention distance", f"{means[0]:.1f} → {means[-1]:.1f}", "pixels, from the first layer to the last"


def _section(figure: str, exhibit: Exhibit | None, missing: str) -> Section:
    words = FIGURES[exhibit.words if exhibit else figure]
    called = words.heading.chinese
    if exhibit is None:
        parts = [element("p", f"{missing[:1].upper()}{missing[1:]}.", class_="lack"), chinese(ABSENT, called)]
    else:
        remarks = [line for remark in exhibit.remarks for line in said(remark)]
        picture = sheet(exhibit.png, words.heading.english, f"{figure}.png, {figure}.json")
        parts = [*said(words.explanation, called), *remarks, picture]
    return Section(heading=words.heading.english, content=tuple(parts))
