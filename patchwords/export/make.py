"""The bytes of a file, compared with the model by what is in them."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from patchwords.export import parity
from patchwords.export.archive import archive, reopened
from patchwords.export.exported import output_name
from patchwords.export.label import label
from patchwords.export.measure import Working
from patchwords.export.parity import Parity, Says
from patchwords.export.pixels import pixels_of
from patchwords.export.trace import trace
from patchwords.export.wish import Wish
from patchwords.weights.subject import Subject


@dataclass(frozen=True, kw_only=True)
class Made:
    """The bytes of a file, and what it says to standardised pictures."""

    data: bytes
    says: Says
    parity: Parity


def make_onnx(subject: Subject, wish: Wish, working: Working) -> Made:
    """In float32 first, which must say what the model says; int8 is made of that."""
    from patchwords.export.graph import graph
    from patchwords.export.int8 import quantise
    from patchwords.export.label import labelled
    from patchwords.export.read import opened

    card, plain = subject.card, replace(wish, precision="float32")
    working("making the graph", 0, 2)
    traced = trace(subject, wish)
    working("making the graph", 1, 2)
    model = graph(traced, wish, output_name(card))
    working("making the graph", 2, 2)
    data = labelled(model, label(card, plain))
    says = opened(data)
    found = _compared(subject, says, plain, working)
    if wish.precision == "int8":
        quantise(model)
        data = labelled(model, label(card, wish))
        says = opened(data)
    return Made(data=data, says=says, parity=found)


def make_pt2(subject: Subject, wish: Wish, working: Working) -> Made:
    """The same for torch.export."""
    working("making the graph", 0, 1)
    data = archive(trace(subject, wish), label(subject.card, wish))
    working("making the graph", 1, 1)
    module = reopened(data)
    pixels = wish.input == "pixels"
    says: Says = (lambda images: module(pixels_of(images, subject.card.preprocess))) if pixels else module
    return Made(data=data, says=says, parity=_compared(subject, says, wish, working))


def _compared(subject: Subject, says: Says, wish: Wish, working: Working) -> Parity:
    found = parity.compare(subject.model, says, subject.card, wish, partial(working, "comparing"))
    parity.check(found, subject.name)
    return found


MAKERS: dict[str, Callable[[Subject, Wish, Working], Made]] = {"onnx": make_onnx, "pt2": make_pt2}
