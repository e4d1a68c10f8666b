"""Classes that are numbers from 0 in the data, with or without names."""

from collections.abc import Iterable, Sequence

import numpy as np

from patchwords.data.sources.source import Labels
from patchwords.errors import DataError

FEW = 1000  # classes that may go without pictures


def number_classes(where: str, labels: Iterable[Labels], names: Sequence[str] = ()) -> list[str]:
    """The classes of labels 0, 1, 2, …: their names, which must suffice, or else the numbers themselves."""
    used = np.unique(np.concatenate([np.zeros(0, dtype=np.int64), *labels]))
    lowest, highest = (int(used[0]), int(used[-1])) if len(used) else (0, 0)
    if lowest < 0:
        raise DataError(f"{where} has the label {lowest}: labels are the numbers of classes, from 0")
    if names and highest >= len(names):
        raise DataError(f"{where} has the label {highest}, but names for {len(names)} classes: labels start at 0")
    if highest >= max(FEW, 2 * len(used)):
        raise DataError(f"{where} has labels up to {highest}, but {len(used)} different ones: number them 0, 1, 2, …")
    return list(names) or [str(number) for number in range(highest + 1)]
