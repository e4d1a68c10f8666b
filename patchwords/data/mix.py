"""Mixup (Zhang et al., 2018) and CutMix (Yun et al., 2019): neighbours in a batch share their pictures and labels.

A step has one draw, so that all of its micro-batches and ranks agree; each holds whole pairs, and a pair mixes within.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from patchwords.errors import UsageError
from patchwords.ops import draws
from patchwords.ops.draws import Numbers


@dataclass(frozen=True, kw_only=True, slots=True)
class Mix:
    """`mixup` and `cutmix` are the a of Beta(a, a), 0 for never; of both, CutMix is taken with probability `switch`."""

    mixup: float = 0.0
    cutmix: float = 0.0
    probability: float = 1.0  # that a step mixes at all
    switch: float = 0.5
    until: float = 1.0  # the share of the training after which nothing is mixed

    def __post_init__(self) -> None:
        for name, number in {"mixup": self.mixup, "cutmix": self.cutmix}.items():
            if not 0 <= number < np.inf:
                raise UsageError(f"{name} {number} is no a of a Beta(a, a): choose one above 0, or 0 for never")
        for name, share in {"probability": self.probability, "switch": self.switch, "until": self.until}.items():
            if not 0 <= share <= 1:
                raise UsageError(f"{name} {share} is not between 0 and 1")


def mix(
    images: Tensor, targets: Tensor, settings: Mix, *, seed: int, step: int, progress: float
) -> tuple[Tensor, Tensor]:
    """Pictures and targets (batch, classes) with a share of their neighbours'; `progress` is the training's, 0 to 1."""
    if progress >= settings.until or settings.mixup == settings.cutmix == 0:
        return images, targets
    whether, which, *beta, row, column = draws.uniform("mix", seed, step, count=6)
    if whether >= settings.probability:
        return images, targets
    if settings.cutmix and (not settings.mixup or which < settings.switch):
        theirs = 1 - float(symmetric_beta(settings.cutmix, *beta))
        images, theirs = _cut(images, theirs, row, column)
    else:
        theirs = 1 - float(symmetric_beta(settings.mixup, *beta))
        images = _blend(images, theirs)
    return images, _blend(targets, theirs)


def symmetric_beta(alpha: float, first: Numbers, second: Numbers) -> Numbers:
    """Two uniform numbers to one of Beta(alpha, alpha), for every alpha above 0 and without rejection.

    Bailey (1994) makes them one of Student's distribution with 2 alpha degrees of freedom, Devroye (1996) that a Beta.
    """
    spread = np.expm1(np.minimum(-np.log1p(-first) / alpha, 700.0))  # e^700 is still a number
    lean = np.cos(2 * np.pi * second)
    with np.errstate(divide="ignore"):
        return 0.5 + 0.5 * lean / np.sqrt(lean**2 + 1 / spread)


def _blend(x: Tensor, theirs: float) -> Tensor:
    """A last one without a neighbour stays as it is."""
    paired = len(x) // 2 * 2
    first, second = x[0:paired:2], x[1:paired:2]
    step, mixed = (second - first).mul_(theirs), torch.empty_like(x)
    torch.add(first, step, out=mixed[0:paired:2])
    torch.sub(second, step, out=mixed[1:paired:2])
    mixed[paired:] = x[paired:]
    return mixed


def _cut(images: Tensor, theirs: float, row: float, column: float) -> tuple[Tensor, float]:
    """A box of the neighbour's, around a point of the picture, and the share of the picture that it really takes."""
    height, width = images.shape[2:]
    top, bottom = _span(height, row, theirs)
    left, right = _span(width, column, theirs)
    mixed, box = images.clone(), (..., slice(top, bottom), slice(left, right))
    mixed[box] = _neighbours(images[box])
    return mixed, (bottom - top) * (right - left) / (height * width)


def _span(side: int, place: float, share: float) -> tuple[int, int]:
    """Where the box begins and ends along a side; it reaches over the edge and is cut off there."""
    half, middle = int(side * share**0.5) // 2, int(side * place)
    return max(middle - half, 0), min(middle + half, side)


def _neighbours(x: Tensor) -> Tensor:
    """The other one of each pair: 1, 0, 3, 2, …; a last one without a neighbour is its own."""
    partner = torch.arange(len(x), device=x.device) ^ 1
    return x.index_select(0, partner.clamp_(max=len(x) - 1))
