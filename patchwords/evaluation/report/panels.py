"""The tables and galleries of a report: who is taken for whom, each class, and pictures with their predictions."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patchwords.errors import DataError
from patchwords.evaluation.classify import Loss, Scores, classify, probabilities
from patchwords.evaluation.report import figures
from patchwords.pages.markup import Markup, element, name, together
from patchwords.pages.parts import embedded, scroll, table
from patchwords.pages.wording import percent, whole

MOST_NAMED = 30  # classes whose names fit around a matrix
CLEAR = 0.75  # a share from which a cell is so strongly coloured that its number changes colour
BEST = 3  # classes that a tile names


@dataclass(frozen=True, kw_only=True)
class Judged:
    """Pictures with what a model said of them."""

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


def confusion(judged: Judged) -> Markup:
    """The matrix with names where they fit, otherwise as a figure with the numbers of the classes."""
    shown = _shown(judged.scores)
    if len(shown) > MOST_NAMED:  # not the whole matrix: that of ImageNet-21k would fill the memory
        side = len(judged.scores.classes.support)
        says = f"Confusion matrix of {side} classes"
        return figures.matrix(judged.scores.labels, judged.scores.predicted, side, says=says)
    counts = _counts(judged.scores, shown)
    sides = [element("th", judged.called(number), scope="col") for number in shown.tolist()]
    rows = [_matrix_row(judged, counts[place], place, number) for place, number in enumerate(shown.tolist())]
    head = element("thead", element("tr", element("th", "true ↓ predicted →", class_="corner"), *sides))
    size = "matrix many" if len(counts) > 6 else "matrix"
    return scroll(element("table", head, element("tbody", *rows), class_=size), says="Confusion matrix")


def _shown(scores: Scores) -> NDArray[np.int64]:
    """The classes of the matrix: all, or where those are too many the ones that occur or are predicted."""
    seen = (scores.classes.support > 0) | (scores.classes.predicted > 0)
    return np.flatnonzero(seen) if len(seen) > MOST_NAMED else np.arange(len(seen))


def _counts(scores: Scores, shown: NDArray[np.int64]) -> NDArray[np.int64]:
    """Pictures by true and predicted class, for these classes."""
    true, predicted = np.searchsorted(shown, scores.labels), np.searchsorted(shown, scores.predicted)
    side = len(shown)
    return np.bincount(true * side + predicted, minlength=side * side).reshape(side, side)


def _matrix_row(judged: Judged, counts: NDArray[np.int64], place: int, true: int) -> Markup:
    cells = [_cell(count, int(counts.sum()), number == place) for number, count in enumerate(counts.tolist())]
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
    scores, shown = judged.scores.classes, _shown(judged.scores)
    numbered = len(shown) > MOST_NAMED  # the figure of the matrix speaks of numbers
    order = shown[np.lexsort((shown, scores.f1[shown], scores.support[shown] == 0))]
    rows = [
        (
            together((judged.called(number), element("small", f" {number}") if numbered else "")),
            whole(scores.support[number]),
            bar(scores.precision[number], scores.predicted[number]),
            bar(scores.recall[number], scores.support[number]),
            bar(scores.f1[number], scores.support[number] + scores.predicted[number]),
        )
        for number in order.tolist()
    ]
    return table(("class", "pictures", "precision", "recall", "F1"), rows, says="Scores of every class")


def bar(share: float, whole: int = 1) -> Markup:
    """A share as a bar; none where it is one of nothing."""
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
    return element("img", src=address, alt=f"picture {index}", loading="lazy", decoding="async")
