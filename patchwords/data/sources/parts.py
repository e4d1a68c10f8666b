"""The parts of a data set (to learn from, to validate, to test), and the data set that they make together."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

import numpy as np

from patchwords.data.sources.names import listed, printable, short
from patchwords.data.sources.source import Data, Source, Subset
from patchwords.data.sources.split import Indices, Split, split
from patchwords.errors import DataError

Part = Literal["train", "val", "test"]
WORDS: dict[str, Part] = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("val", "valid", "validation"), "val"),
    **dict.fromkeys(("test", "testing"), "test"),
}
OWN_VALIDATION = "the data brings its own validation pictures; data.validation.share is not used"
TEST_WAITS = "the test pictures decide nothing: they are scored once, at the end"


def part_of(word: str) -> Part | None:
    """The part that a folder's or a column's word means, or None."""
    return WORDS.get(word.lower())


def assemble(
    name: str,
    classes: Sequence[str],
    parts: Mapping[Part, Source],
    settings: Split | None,
    *,
    notes: Iterable[str] = (),
    channels: int = 3,
) -> Data:
    """A data set of checked parts; without pictures for validation, a share of train is held out, never of test.

    Without settings nothing is held out: what has no parts of its own is then all there is, to judge a model by.
    """
    if settings is None:
        return _undivided(name, classes, parts, notes, channels)
    _check(name, classes, parts)
    return _divided(name, classes, parts, settings, notes, channels)


def unlabelled(name: str, parts: Mapping[Part, Source], settings: Split | None, notes: Iterable[str]) -> Data:
    """A data set of pictures that nobody told apart: all of one class, which says nothing."""
    if settings is None:
        return _undivided(name, (name,), parts, notes, channels=3)
    _filled(printable(name), (name,), parts)
    return _divided(name, (name,), parts, settings, notes, channels=3)


def _divided(
    name: str,
    classes: Sequence[str],
    parts: Mapping[Part, Source],
    settings: Split,
    notes: Iterable[str],
    channels: int,
) -> Data:
    said = [*notes, *_gaps(classes, parts)]
    train, val = parts["train"], parts.get("val")
    if val is not None:
        said.append(OWN_VALIDATION)
    else:
        learned, held = split(train.labels, classes, settings)
        said.append(_account(train, classes, held, settings))
        train, val = Subset(train, learned), Subset(train, held)
    said += [TEST_WAITS] * ("test" in parts)
    return Data(
        name=short(name),
        classes=tuple(classes),
        train=train,
        val=val,
        test=parts.get("test"),
        notes=tuple(said),
        channels=channels,
    )


def _undivided(
    name: str, classes: Sequence[str], parts: Mapping[Part, Source], notes: Iterable[str], channels: int
) -> Data:
    _filled(printable(name), classes, parts)
    train = (
        parts.get("train") or parts.get("test") or parts["val"]
    )  # a test that stands twice has nothing beside it to learn from
    return Data(
        name=short(name),
        classes=tuple(classes),
        train=train,
        val=parts.get("val", train),
        test=parts.get("test"),
        notes=(*notes, *_gaps(classes, parts)),
        channels=channels,
    )


def _filled(name: str, classes: Sequence[str], parts: Mapping[Part, Source]) -> None:
    for part, source in parts.items():
        if not len(source):
            raise DataError(f"{name} has no pictures in its part {part}: add some, or remove that part")
    if len(set(classes)) < len(classes):
        raise DataError(f"{name} has two classes of the same name: give each its own")


def _check(name: str, classes: Sequence[str], parts: Mapping[Part, Source]) -> None:
    name = printable(name)
    if "train" not in parts:
        raise DataError(f"{name} has {', '.join(parts) or 'nothing'} but no part called train: name what to learn from")
    _filled(name, classes, parts)
    present = np.unique(parts["train"].labels)
    for part, source in parts.items():
        if len(strange := np.setdiff1d(source.labels, present)):
            names = listed(classes[label] for label in strange)
            raise DataError(f"{name}: {part} has classes that train lacks ({names}): add them to train, or remove them")
    if len(present) < 2:
        raise DataError(
            f"{name} has one class only ({classes[present[0]]}), and one class cannot be told from another: "
            "add pictures of a second class (in folders, each class is a folder of its own)"
        )


def _gaps(classes: Sequence[str], parts: Mapping[Part, Source]) -> Iterator[str]:
    for part, source in parts.items():
        if len(missing := np.setdiff1d(np.arange(len(classes)), source.labels)):
            names = listed(classes[label] for label in missing)
            yield f"{part} has no pictures of {len(missing)} of the {len(classes)} classes ({names})"


def _account(source: Source, classes: Sequence[str], held: Indices, settings: Split) -> str:
    empty = np.setdiff1d(source.labels, source.labels[held])
    small = f"; too small for that: {listed(classes[label] for label in empty)}" if len(empty) else ""
    return (
        f"{len(held)} of {len(source)} pictures are held out for validation "
        f"({settings.said(len(classes))}, seed {settings.seed}){small}"
    )
