"""Which output of a model stands for which class of a data set: by name, never by chance."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from patchwords.data.sources.names import listed
from patchwords.errors import DataError, ModelError, UsageError
from patchwords.weights.card import Card
from patchwords.weights.classless import towards_classes

NO_CLASSES = "the model has no classes to choose from"
FEATURES = "judge its features with --few-shot, --knn or --probe"
OTHERWISE = f"fine-tune the model on this data (`patchwords train DATA --weights MODEL`), or {FEATURES}"


@dataclass(frozen=True, kw_only=True)
class Matching:
    """The outputs that stand for the classes of the data, what all outputs are called, and what to say of it."""

    outputs: NDArray[np.int64]  # for each class of the data, in the data's order
    names: tuple[str, ...]  # of the outputs
    notes: tuple[str, ...] = ()

    def labels(self, labels: NDArray[np.int64]) -> NDArray[np.int64]:
        """The data's labels as numbers of outputs."""
        return self.outputs[labels]


def match(card: Card, classes: Sequence[str], *, by_order: bool = False) -> Matching:
    """The outputs for these classes; what is not known is refused, `by_order` takes them as they come."""
    if by_order:
        return _in_order(card, classes)
    if reason := mismatch(card, classes):
        if not card.model.classes:
            raise ModelError(f"{reason}: {towards_classes(card.model)}, or {FEATURES}")
        raise DataError(f"{reason}: {_advice(card, classes)}{OTHERWISE}")
    return _by_name(card.classes, classes) if card.classes else _unnamed(classes)


def mismatch(card: Card, classes: Sequence[str]) -> str:
    """Why the outputs say nothing about these classes; empty where they do."""
    ours, count = card.classes, card.model.classes
    if not count:
        return NO_CLASSES
    if not ours and count != len(classes):
        said = "the model's file names no classes, and its"
        return f"{said} {count} outputs cannot stand for the {len(classes)} classes of the data"
    known = set(ours or classes)
    if missing := [name for name in classes if name not in known]:
        names = f"{listed(missing)}; it has {listed(ours)}"
        return f"the model lacks {len(missing)} of the data's {len(classes)} classes ({names})"
    return ""


def _advice(card: Card, classes: Sequence[str]) -> str:
    """What to do about names that differ."""
    if not card.classes:
        return ""
    if len(card.classes) == len(classes):
        return "name them alike, take the outputs in the data's order with --by-order, or "
    return "remove or rename these, or "


def _in_order(card: Card, classes: Sequence[str]) -> Matching:
    count = card.model.classes
    if count != len(classes):
        raise UsageError(f"--by-order needs as many outputs as classes: the model has {count}, the data {len(classes)}")
    ours = f", not by their own names ({listed(card.classes)})" if card.classes else ""
    note = f"the model's outputs are taken in the data's order ({listed(classes)}){ours}"
    return Matching(outputs=np.arange(count), names=tuple(classes), notes=(note,))


def _unnamed(classes: Sequence[str]) -> Matching:
    count = len(classes)
    note = f"the model's file names no classes: its {count} outputs are taken in the data's order ({listed(classes)})"
    return Matching(outputs=np.arange(count), names=tuple(classes), notes=(note,))


def _by_name(ours: Sequence[str], classes: Sequence[str]) -> Matching:
    places = {name: place for place, name in enumerate(ours)}
    outputs = np.array([places[name] for name in classes], dtype=np.int64)
    return Matching(outputs=outputs, names=tuple(ours), notes=tuple(_differences(ours, classes)))


def _differences(ours: Sequence[str], classes: Sequence[str]) -> Iterator[str]:
    if len(classes) < len(ours):
        yield (
            f"the data has {len(classes)} of the model's {len(ours)} classes, which are matched by name; "
            "an answer outside of them is wrong"
        )
    elif tuple(ours) != tuple(classes):
        yield "the model has the data's classes in another order: they are matched by name"
