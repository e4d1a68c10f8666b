"""Pictures of a data set that a model is asked about in several settings."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from patchwords.data.broken import Broken
from patchwords.data.loader import Loading, Prepare, scored
from patchwords.data.sources.door import open_pictures
from patchwords.data.transforms import normalise
from patchwords.errors import DataError
from patchwords.weights.card import Card

MOST = 2048  # pictures, evenly spread over the data


def shown(given: str | Path, card: Card, note: Callable[[str], None], *, offline: bool, mirror: str) -> Tensor:
    """Standardised pictures, those to test with where the data has such; what cannot be read is left out."""
    data = open_pictures(given, split=None, offline=offline, mirror=mirror)
    source = data.test or data.val
    chosen = np.unique(np.linspace(0, len(source) - 1, min(MOST, len(source))).astype(np.int64))
    work = Prepare(source, card.preprocess, card.model.channels)
    found = [
        normalise(torch.from_numpy(pictures.images), card.preprocess)
        for pictures in scored(work, chosen, 64, Loading(), Broken(1.0, len(source), note))
        if len(pictures.images)
    ]
    if not found:
        raise DataError(f"none of the pictures of {given} can be read: look at them with `patchwords check`")
    return torch.cat(found)
