"""RandAugment, TrivialAugment, 3-Augment: which operations a picture undergoes (all in docs/augmentation.md)."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from patchwords.data.augment import colour
from patchwords.data.augment.byol import Byol
from patchwords.data.augment.geometry import Size
from patchwords.data.augment.rounds import Round
from patchwords.data.augment.strengths import BIG_VISION, TIMM, TORCHVISION, TORCHVISION_WIDE
from patchwords.errors import UsageError
from patchwords.ops import draws
from patchwords.ops.draws import Numbers
from patchwords.settings import at_least, check

Numbered = NDArray[Any]  # a whole number a picture: which one it is, or how often it was shown before
TABLES = {"timm": TIMM, "torchvision": TORCHVISION, "big-vision": BIG_VISION}


@dataclass(frozen=True, kw_only=True, slots=True)
class NoPolicy:
    """Nothing."""

    kind: ClassVar[str] = "none"

    def rounds(self, size: Size, seed: int, views: Numbered, indices: Numbered) -> list[Round]:
        return []


@dataclass(frozen=True, kw_only=True, slots=True)
class RandAugment:
    """Cubuk et al., 2019: so many `operations` of a set, one after another, all of about the same magnitude."""

    kind: ClassVar[str] = "randaugment"
    operations: int = 2
    magnitude: float = 9.0
    deviation: float = 0.0  # of the normal distribution that the magnitude is drawn from, each time
    table: Literal["timm", "torchvision", "big-vision"] = "timm"
    probability: float = 1.0  # that an operation that was drawn is done; timm's is one half

    def __post_init__(self) -> None:
        check(self)
        at_least(1, operations=self.operations)
        most = TABLES[self.table].most
        if not 0 <= self.magnitude <= most:
            raise UsageError(f"magnitude {self.magnitude} is not between 0 and {most}, as {self.table} has it")
        if not 0 <= self.deviation < np.inf:
            raise UsageError(f"deviation {self.deviation} is not a finite number from 0 on")
        if not 0 <= self.probability <= 1:
            raise UsageError(f"probability {self.probability} is not between 0 and 1")

    def rounds(self, size: Size, seed: int, views: Numbered, indices: Numbered) -> list[Round]:
        table = TABLES[self.table]
        drawn = []
        for number in range(self.operations):
            which, done, *normal, sign, row, column = draws.uniform(
                "randaugment", seed, views, indices, number, count=7
            ).T
            magnitude = np.clip(self.magnitude + self.deviation * _normal(*normal), 0, table.most)
            which = np.where(done < self.probability, np.floor(which * len(table.formulas)), -1)
            spot = np.stack([row, column])
            drawn.append(table.round(which, magnitude / table.full, _sign(sign), spot, size))
        return drawn


@dataclass(frozen=True, kw_only=True, slots=True)
class TrivialAugment:
    """Müller and Hutter, 2021: one operation of the wide set, of any of 31 magnitudes."""

    kind: ClassVar[str] = "trivialaugment"

    def rounds(self, size: Size, seed: int, views: Numbered, indices: Numbered) -> list[Round]:
        which, magnitude, sign = draws.uniform("trivialaugment", seed, views, indices, count=3).T
        which = np.floor(which * len(TORCHVISION_WIDE.formulas))
        share = np.floor(magnitude * (TORCHVISION_WIDE.full + 1)) / TORCHVISION_WIDE.full
        return [TORCHVISION_WIDE.round(which, share, _sign(sign), np.zeros((2, len(which))), size)]


@dataclass(frozen=True, kw_only=True, slots=True)
class ThreeAugment:
    """DeiT III (Touvron et al., 2022): grey, solarised or blurred, equally often."""

    kind: ClassVar[str] = "3-augment"

    def rounds(self, size: Size, seed: int, views: Numbered, indices: Numbered) -> list[Round]:
        which, width = draws.uniform("3-augment", seed, views, indices, count=2).T
        greyed, solarised, blurred = (np.flatnonzero(np.floor(which * 3) == number) for number in range(3))
        drawn = Round.empty(len(which))
        drawn.put(greyed, "grey")
        drawn.put(solarised, "solarise", np.full(len(solarised), 128.0))
        drawn.put(blurred, "blur", *colour.gaussian_taps(0.1 + 1.9 * width[blurred]))
        return [drawn]


Policy = NoPolicy | RandAugment | TrivialAugment | ThreeAugment | Byol


def _normal(first: Numbers, second: Numbers) -> Numbers:
    """Box and Muller: two uniform numbers to a normal one."""
    return np.sqrt(-2 * np.log1p(-first)) * np.cos(2 * np.pi * second)


def _sign(uniform: Numbers) -> Numbers:
    return np.where(uniform < 0.5, -1.0, 1.0)
