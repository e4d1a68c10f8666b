"""Who may see which pictures: those to learn from, those to choose by, and those that judge once, at the very end."""

import math
from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from patchwords.data.sources.names import listed, printable
from patchwords.data.sources.source import Data, Joined, Source, Subset
from patchwords.data.sources.split import Indices, Split, split
from patchwords.errors import DataError, UsageError
from patchwords.ops import draws

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


def portion(data: Data, share: float, seed: int) -> Data:
    """The same data with a share of each class to learn from, one picture at least; smaller ones are within larger."""
    if share == 1:
        return data
    if not 0 < share < 1:
        raise UsageError(f"share {share} of the pictures is not above 0 and at most 1: 0.1 is a tenth")
    labels = data.train.labels
    classes = [np.flatnonzero(labels == label) for label in range(len(data.classes))]
    kept = [
        numbers[_first(name, len(numbers), share, seed)] for name, numbers in zip(data.classes, classes, strict=True)
    ]
    return replace(data, train=Subset(data.train, np.sort(np.concatenate(kept))))


def _first(name: str, count: int, share: float, seed: int) -> Indices:
    """Those that come first in the order of this class; the address holds its name, so other classes do not matter."""
    wanted = max(1, math.ceil(round(share * count, 6)))  # 0.07 of 100 is 7, not 7.000000000000001
    return draws.permutation(f"portion {name!a}", seed, of=count)[:wanted]


def halves(data: Data) -> tuple[Data, Data]:
    """The first half of the classes and the others: two tasks that have no class in common."""
    count = len(data.classes)
    if count < 4:
        raise DataError(
            f"{printable(data.name)} has {count} classes, too few to learn from some of them and to be judged by "
            "others: give pictures of at least 4 classes, or other pictures to be judged by with --target"
        )
    middle = (count + 1) // 2
    return _only(data, 0, middle), _only(data, middle, count)


def _only(data: Data, start: int, stop: int) -> Data:
    """The pictures of some neighbouring classes, and no others."""
    names = data.classes[start:stop]
    for part, source in (("to learn from", data.train), ("that judge", data.val)):
        if missing := [data.classes[label] for label in range(start, stop) if label not in source.labels]:
            raise DataError(
                f"{printable(data.name)} has no pictures {part} of {listed(missing)}, and half of the classes is "
                "learned from, the other judges: add some, or give other pictures to be judged by with --target"
            )
    return replace(
        data,
        name=f"{data.name}, {len(names)} classes from {printable(names[0])} on",
        classes=names,
        train=_within(data.train, start, stop),
        val=_within(data.val, start, stop),
        notes=(),
    )


def _within(source: Source, start: int, stop: int) -> Source:
    """The pictures whose labels are from `start` up to `stop`, which count from 0 then."""
    kept = Subset(source, np.flatnonzero((source.labels >= start) & (source.labels < stop)))
    kept.labels = kept.labels - start
    return kept
