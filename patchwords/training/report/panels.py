"""The tables and galleries of the report: who is taken for whom, each class, and pictures with their predictions."""

import base64
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patchwords.errors import DataError
from patchwords.evaluation.classify import Loss, Scores, classify, probabilities
from patchwords.training.report import figures
from patchwords.training.report.markup import Markup, element, name, together
from patchwords.training.report.wording import percent, whole

Row = Sequence[str]
MOST_NAMED = 30  # classes whose names fit around a matrix
CLEAR = 0.75  # a share from which a cell is so strongly coloured that its number changes colour
BEST = 3  # classes that a tile names


@dataclass(frozen=True, kw_only=True)
class Judged:
    """The validation pictures with what the best model said of them."""

    logits: NDArray[Any]
    labels: NDArray[Any]
    loss: Loss
    classes: tuple[str, ...]
    names: Sequence[str]  # of the pictures
    thumbnails: Callable[[int], bytes]

    @cached_property
    def scores(self) -> Scores:
        return classify(self.logits, self.labels, loss=self.loss)

    def called(self, number: int) -> Markup:
        """The name of a class, or its number where it has none."""
        return name(self.classes[number] if number < len(self.classes) else f"class {number}")


def table(head: Row, rows: Iterable[Row], *, says: str, class_: str = "") -> Markup:
    """A table that scrolls within the page; every column but the first is for numbers unless `class_` is words."""
    cells = [element("th", text, scope="col") for text in head]
    body = [element("tr", *(element("td", text) for text in row)) for row in rows]
    inside = (element("thead", element("tr", *cells)), element("tbody", *body))
    return scroll(element("table", *inside, class_=class_ or "numbers"), says=says)


def scroll(child: Markup, *, says: str) -> Markup:
    """What is wider or longer than its place can be scrolled, with the keyboard too."""
    return element("div", child, class_="scroll", tabindex="0", role="region", aria_label=says)


def confusion(judged: Judged) -> Markup:
    """The matrix with names where they fit, otherwise as a figure with the numbers of the classes."""
    scores, side = judged.scores, len(judged.scores.classes.support)
    if side > MOST_NAMED:  # not the whole matrix: that of ImageNet-21k would fill the memory
        says = f"Confusion matrix of {side} classes"
        return figures.matrix(scores.labels, scores.predicted, side, says=says)
    counts = scores.confusion
    sides = [element("th", judged.called(number), scope="col") for number in range(len(counts))]
    rows = [_matrix_row(judged, counts[number], number) for number in range(len(counts))]
    head = element("thead", element("tr", element("th", "true ↓ predicted →", class_="corner"), *sides))
    size = "matrix many" if len(counts) > 6 else "matrix"
    return scroll(element("table", head, element("tbody", *rows), class_=size), says="Confusion matrix")


def _matrix_row(judged: Judged, counts: NDArray[np.int64], true: int) -> Markup:
    cells = [_cell(count, int(counts.sum()), number == true) for number, count in enumerate(counts.tolist())]
    return element("tr", element("th", judged.called(true), scope="row"), *cells)


def _cell(count: int, total: int, right: bool) -> Markup:
    """A number on a colour that grows with its share of the row; the root makes rare mistakes visible."""
    if not count:
        return element("td", "·", class_="none")
    strength = (count / total) ** 0.5
    kinds = ["right" if right else "wrong"] + ["clear"] * (strength > CLEAR)
    says = f"{whole(count)} of {whole(total)}, {percent(count / total)}"
    return element("td", whole(count), class_=" ".join(kinds), style=f"--share:{strength:.3f}", title=says)


def pairs(judged: Judged, most: int = 12) -> Markup:
    """The most frequent mistakes."""
    support = judged.scores.classes.support
    rows = [
        (judged.called(true), judged.called(predicted), whole(count), percent(count / support[true]))
        for true, predicted, count in judged.scores.confused(most)
    ]
    if not rows:
        return element("p", "Not one picture was predicted wrongly.")
    head = ("true", "predicted", "pictures", "share")
    return table(head, rows, says="Most confused pairs", class_="numbers pairs")


def classes(judged: Judged) -> Markup:
    """Every class on its own, the weakest first; those without pictures come last."""
    scores = judged.scores.classes
    numbered = len(scores.f1) > MOST_NAMED  # the figure of the matrix speaks of numbers
    order = np.lexsort((np.arange(len(scores.f1)), scores.f1, scores.support == 0))
    rows = [
        (
            together((judged.called(number), element("small", f" {number}") if numbered else "")),
            whole(scores.support[number]),
            _share(scores.precision[number], scores.predicted[number]),
            _share(scores.recall[number], scores.support[number]),
            _share(scores.f1[number], scores.support[number] + scores.predicted[number]),
        )
        for number in order.tolist()
    ]
    return table(("class", "pictures", "precision", "recall", "F1"), rows, says="Scores of every class")


def _share(share: float, whole: int) -> Markup:
    """A share as a bar; none where it is undefined."""
    if not whole:
        return element("span", "\N{EN DASH}", class_="none")
    return element("span", percent(share), class_="bar", style=f"--share:{share:.3f}")


def gallery(judged: Judged, chosen: Iterable[int]) -> Markup:
    """Pictures with their true class, what was predicted, how sure the model was, and their file."""
    return element("div", *(_tile(judged, index) for index in chosen), class_="gallery")


def _tile(judged: Judged, index: int) -> Markup:
    true, predicted = int(judged.labels[index]), int(judged.scores.predicted[index])
    chances = probabilities(judged.logits[index : index + 1], loss=judged.loss)[0]
    first = np.argsort(-chances, kind="stable")[:BEST].tolist()
    shown = first if true in first else [*first[: BEST - 1], true]
    verdict = element("b", "✓ " if true == predicted else "✗ ", judged.called(true))
    answers = [_answer(judged, number, float(chances[number]), number == true) for number in shown]
    file = element("small", name(judged.names[index])) if index < len(judged.names) else ""
    caption = element("figcaption", verdict, element("ul", *answers), file)
    return element("figure", _picture(judged, index), caption, class_="right" if true == predicted else "wrong")


def _answer(judged: Judged, number: int, chance: float, right: bool) -> Markup:
    kind = "right" if right else "wrong"
    return element(
        "li", element("span", judged.called(number)), percent(chance), class_=kind, style=f"--share:{chance:.3f}"
    )


def _picture(judged: Judged, index: int) -> Markup:
    """The thumbnail, or the reason why there is none: the file may be gone since it was judged."""
    try:
        address = embedded(judged.thumbnails(index))
    except (DataError, OSError) as error:
        return element("div", f"cannot be shown: {error}", class_="missing")
    return element("img", src=address, alt=f"validation picture {index}", loading="lazy", decoding="async")


def embedded(picture: bytes) -> str:
    """A picture's bytes as an address that needs no network."""
    for start, kind in {b"\xff\xd8\xff": "jpeg", b"\x89PNG\r\n\x1a\n": "png"}.items():
        if picture.startswith(start):
            return f"data:image/{kind};base64,{base64.b64encode(picture).decode()}"
    raise DataError("the thumbnail is neither a JPEG nor a PNG")


def facts(rows: Iterable[tuple[str, str]]) -> Markup:
    """Names and values in two columns."""
    pairs = [together((element("dt", key), element("dd", value))) for key, value in rows]
    return element("dl", *pairs)
