"""Who may see which pictures: those to learn from, those to choose by, and those that judge once, at the very end."""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from patchwords.data.sources.names import listed, printable
from patchwords.data.sources.source import Data, Joined, Source, Subset
from patchwords.data.sources.split import Indices, Split, split
from patchwords.errors import DataError

FIFTH = Split(share=0.2, seed=0)


def final(data: Data) -> Data:
    """`train` is all that may be learned from, and `val` is what judges: the test part, or what comes next to one."""
    learned, judging, said = _parts(data)
    _check(data, learned, judging)
    return replace(data, train=learned, val=judging, test=None, notes=(*data.notes, said))


def _parts(data: Data) -> tuple[Source, Source, str]:
    if data.test is data.train:
        raise DataError(f"{printable(data.name)} has a test part only: name what to learn from (a part called train)")
    own = [data.train] if data.val is data.train else [data.train, data.val]
    if data.test is not None:
        every = own[0] if len(own) == 1 else Joined(own)
        return every, data.test, f"{data.name} is judged by its test part"
    if len(own) == 2:
        return data.train, data.val, f"{data.name} has no test part: it is judged by its validation part"
    learned, held = split(data.train.labels, data.classes, FIFTH)
    said = f"{data.name} has no parts of its own: a fifth of each class is put aside, and judges"
    return Subset(data.train, learned), Subset(data.train, held), said


def _check(data: Data, learned: Source, judging: Source) -> None:
    present, name = np.unique(learned.labels), printable(data.name)
    if len(present) < 2:
        raise DataError(f"{name} has one class only to learn from, which cannot be told from another: add a second")
    if len(strange := np.setdiff1d(judging.labels, present)):
        names = listed(data.classes[label] for label in strange)
        raise DataError(f"{name} is judged by classes that cannot be learned ({names}): add them to train")


def development(data: Data, settings: Split) -> Data:
    """A share of what may be learned from, the same of each class, chooses in place of what judges at the end."""
    return divided(data, *split(data.train.labels, data.classes, settings))


def divided(data: Data, learned: Indices, choosing: Indices) -> Data:
    """The numbered pictures of the training part, to learn from and to choose by; nothing else is in it."""
    return replace(data, train=Subset(data.train, learned), val=Subset(data.train, choosing), notes=())


def drawn(data: Data, numbers: Indices) -> Data:
    """The same data with these pictures alone to learn from."""
    return replace(data, train=Subset(data.train, numbers), notes=tuple(_kept(data, numbers)))


def _kept(data: Data, numbers: Indices) -> Iterable[str]:
    yield from data.notes
    if len(missing := np.setdiff1d(data.train.labels, data.train.labels[numbers])):
        names = listed(data.classes[label] for label in missing)
        yield f"{data.name}: none of the {len(numbers):,} pictures shows {len(missing)} of the classes ({names})"
