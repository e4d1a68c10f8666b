"""What a training picture undergoes after its crop, on the whole batch at once.

First it is mirrored, then comes the policy, then colour jitter; random erasing acts on normalised pictures, and mixing
comes last (`patchwords.data.mix`). Every decision is a draw with the address (seed, view, index): neither a picture's
neighbours nor the device nor the number of workers has a say.
"""

from dataclasses import dataclass
from itertools import permutations

import numpy as np
from torch import Tensor

from patchwords.data.augment.geometry import RECTANGLE_DRAWS, cover, rectangles
from patchwords.data.augment.noise import normal
from patchwords.data.augment.policy import NoPolicy, Numbered, Policy
from patchwords.data.augment.rounds import Round, Run, onto, run
from patchwords.errors import UsageError
from patchwords.ops import draws
from patchwords.settings import at_least, check

JITTERED = ("brightness", "contrast", "colour")
ORDERS = np.array(list(permutations(range(len(JITTERED)))))  # (6, 3)


@dataclass(frozen=True, kw_only=True, slots=True)
class Augment:
    """Mirrored with probability `flip`; the policy; then brightness, contrast and colour by factors 1 ± `jitter`."""

    flip: float = 0.5
    policy: Policy = NoPolicy()  # noqa: RUF009 (a frozen value)
    jitter: float = 0.0
    erase: float = 0.0  # the probability of a rectangle of noise
    repeats: int = 1  # how often a picture comes in a pass, each time with other draws

    def __post_init__(self) -> None:
        check(self)
        at_least(1, repeats=self.repeats)
        for name, share in {"flip": self.flip, "erase": self.erase}.items():
            if not 0 <= share <= 1:
                raise UsageError(f"{name} {share} is not a probability: choose a number between 0 and 1")
        if not 0 <= self.jitter < np.inf:
            raise UsageError(f"jitter {self.jitter} is not a finite number from 0 on: 0.4 makes factors of 0.6 to 1.4")


def augment(
    images: Tensor, settings: Augment, *, seed: int, views: Numbered, indices: Numbered, run: Run = run
) -> Tensor:
    """Pictures (batch, channels, height, width), in [0, 1] or of uint8, to changed ones in [0, 1]."""
    size = (images.shape[2], images.shape[3])
    rounds = [
        *_flip(settings.flip, seed, views, indices),
        *settings.policy.rounds(size, seed, views, indices),
        *_jitter(settings.jitter, seed, views, indices),
    ]
    return run(images, rounds)


def erase(images: Tensor, probability: float, *, seed: int, views: Numbered, indices: Numbered) -> Tensor:
    """Random erasing (Zhong et al., 2017): a rectangle of normal noise in some of the normalised pictures."""
    if probability == 0:
        return images
    whether = draws.uniform("erase", seed, views, indices, count=1)[:, 0] < probability
    uniform = draws.uniform("erase-box", seed, views, indices, count=RECTANGLE_DRAWS)
    boxes, fits = rectangles(uniform, (images.shape[2], images.shape[3]))
    chosen = np.flatnonzero(whether & fits)
    if not len(chosen):
        return images
    place, corners = onto(chosen, images), onto(boxes[chosen].astype(np.float32), images)
    words = onto(draws.words("erase-noise", seed, views, indices)[chosen].view(np.int64), images)
    noise = normal(words, tuple(images.shape[1:])).to(images.dtype)
    return images.index_copy(0, place, cover(images.index_select(0, place), noise, *corners.unbind(1)))


def _flip(probability: float, seed: int, views: Numbered, indices: Numbered) -> list[Round]:
    if probability == 0:
        return []
    flipped = draws.uniform("flip", seed, views, indices, count=1)[:, 0] < probability
    drawn = Round.empty(len(flipped))
    drawn.put(np.flatnonzero(flipped), "mirror")
    return [drawn]


def _jitter(most: float, seed: int, views: Numbered, indices: Numbered) -> list[Round]:
    """One of the three each round, in an order of the picture's own."""
    if most == 0:
        return []
    *factors, which = draws.uniform("jitter", seed, views, indices, count=len(JITTERED) + 1).T
    order = ORDERS[(which * len(ORDERS)).astype(np.int64)]  # (batch, 3)
    low = max(0.0, 1 - most)
    rounds = [Round.empty(len(which)) for _ in JITTERED]
    for place, drawn in enumerate(rounds):
        for number, name in enumerate(JITTERED):
            chosen = np.flatnonzero(order[:, place] == number)
            drawn.put(chosen, name, low + (1 + most - low) * factors[number][chosen])
    return rounds
