"""ReaL accuracy (Beyer et al., 2020): a picture may show several classes, and any of them is right."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patchwords.data.sources.imagenet import real_labels
from patchwords.data.sources.source import Source
from patchwords.errors import DataError

CLASSES = 1000
FILE = "real.json"  # as its authors call it
WNID = re.compile(r"n\d{8}")

Sets = Sequence[tuple[int, ...]]  # for each picture all classes that it shows


@dataclass(frozen=True, kw_only=True, slots=True)
class Real:
    """The share of right answers among the pictures that have any label left."""

    accuracy: float
    count: int
    left_out: int  # pictures in which nobody saw any of the classes


def real_accuracy(predicted: NDArray[Any], sets: Sets) -> Real:
    """Right is a class of the picture's set; pictures with an empty set do not count."""
    if len(predicted) != len(sets):
        raise DataError(f"{len(predicted)} predictions and {len(sets)} sets of labels do not belong together")
    right = [answer in allowed for answer, allowed in zip(predicted.tolist(), sets, strict=True) if allowed]
    if not right:
        raise DataError(f"none of the {len(sets)} pictures has a ReaL label: there is nothing to score")
    return Real(accuracy=float(np.mean(right)), count=len(right), left_out=len(sets) - len(right))


def real_file(folder: Path) -> Path | None:
    """The labels that lie beside the pictures, where there are any."""
    places = (folder / FILE, folder / "val" / FILE)
    return next((place for place in places if place.is_file()), None)


def real_sets(path: Path, source: Source, classes: Sequence[str]) -> list[tuple[int, ...]]:
    """The sets of all pictures of a source, as numbers among these classes."""
    places = _places(path, classes)
    sets = real_labels(path, source)
    if strange := [number for allowed in sets for number in allowed if not 0 <= number < CLASSES]:
        raise DataError(f"{path} holds {strange[0]}, which is no class from 0 to {CLASSES - 1}: get it anew")
    return [tuple(places[number] for number in allowed) for allowed in sets]


def _places(path: Path, classes: Sequence[str]) -> list[int]:
    """Where each of ReaL's numbers, which count the wnids in sorted order, stands among these classes."""
    if len(set(classes)) != CLASSES:
        raise DataError(f"{path} is for the {CLASSES} classes of ImageNet, and here are {len(classes)}: leave it out")
    if all(map(WNID.fullmatch, classes)):
        return [classes.index(name) for name in sorted(classes)]
    if sorted(classes) == sorted(map(str, range(CLASSES))):
        return [classes.index(str(number)) for number in range(CLASSES)]
    raise DataError(
        f"{path} counts the classes of ImageNet by their wnids, and here is {classes[0]!r}: "
        f"name the classes like n01440764, or 0 to {CLASSES - 1}"
    )
