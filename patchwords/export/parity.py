"""Whether an exported file says what the model says: of picture files, through the card's preprocessing."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from patchwords.data.preprocess import Preprocess
from patchwords.data.transforms import prepare
from patchwords.errors import ModelError
from patchwords.evaluation.answers import Compute, ask
from patchwords.export.pictures import made
from patchwords.export.sizes import steps
from patchwords.export.wish import Wish
from patchwords.weights.card import Card

BATCHES = (1, 2, 7, 33)
TOLERANCE = 1e-4  # of the largest number that the model says, or of one where that is smaller
Says = Callable[[Tensor], Tensor]


@dataclass(frozen=True, kw_only=True, slots=True)
class Compared:
    """One batch, asked of both."""

    batch: int
    size: tuple[int, int]
    difference: float  # the largest between two logits
    allowed: float
    agreement: float  # the share of pictures with the same class first


@dataclass(frozen=True, kw_only=True, slots=True)
class Parity:
    """All batches."""

    batches: tuple[Compared, ...]

    @property
    def difference(self) -> float:
        return max(each.difference for each in self.batches)

    @property
    def allowed(self) -> float:
        return max(each.allowed for each in self.batches)

    @property
    def agreement(self) -> float:
        pictures = sum(each.batch for each in self.batches)
        return sum(each.batch * each.agreement for each in self.batches) / pictures

    def numbers(self) -> dict[str, Any]:
        """Ready for JSON."""
        batches = [asdict(each) | {"size": list(each.size)} for each in self.batches]
        return {"difference": self.difference, "allowed": self.allowed, "agreement": self.agreement, "batches": batches}


def sizes(card: Card, wish: Wish) -> list[tuple[int, int]]:
    """The card's; where the file takes any, also another, oblong one."""
    size = card.preprocess.size
    if wish.sizes == "fixed":
        return [size]
    height, width = steps(card.model)
    return [size, (size[0] + height, size[1] + 2 * width)]


def compare(model: Says, program: Says, card: Card, wish: Wish, working: Callable[[int, int], None]) -> Parity:
    """Each batch of each size, the first pictures of the same files; whether that is near enough, `check` says."""
    files, found, done = made(max(BATCHES)), list[Compared](), 0
    total = len(sizes(card, wish)) * sum(BATCHES)
    for size in sizes(card, wish):
        preprocess = replace(card.preprocess, size=size)
        images = np.stack([prepare(file, preprocess, card.model.channels) for file in files])
        for batch in BATCHES:
            found.append(_compared(model, program, images[:batch], preprocess))
            done += batch
            working(done, total)
    return Parity(batches=tuple(found))


def check(found: Parity, name: str) -> None:
    """Refuses a file that says something else."""
    for each in found.batches:
        if not each.difference <= each.allowed:
            height, width = each.size
            raise ModelError(
                f"{name} does not say what the model says: of {each.batch} pictures of {height}x{width} its answers "
                f"differ by {each.difference:.2g}, and {each.allowed:.2g} is allowed; nothing was written"
            )


def _compared(model: Says, program: Says, images: NDArray[np.uint8], preprocess: Preprocess) -> Compared:
    ours, theirs = (ask(each, images, preprocess, Compute()) for each in (model, program))
    if ours.shape != theirs.shape:
        raise ModelError(f"the file gives {list(theirs.shape)} numbers where the model gives {list(ours.shape)}")
    if not ours.isfinite().all():
        raise ModelError("the model gives no finite numbers: its weights are spoiled, and are not exported")
    return Compared(
        batch=len(images),
        size=preprocess.size,
        difference=float(torch.nan_to_num(theirs - ours, nan=torch.inf).abs().max()),
        allowed=TOLERANCE * max(1.0, float(ours.abs().max())),
        agreement=float((ours.argmax(1) == theirs.argmax(1)).double().mean()),
    )
