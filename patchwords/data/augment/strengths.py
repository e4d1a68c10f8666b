"""How strongly each operation of RandAugment and TrivialAugment works: one table a library, one line an operation.

The numbers are those of the libraries, their slips included: recipes were tuned with them (docs/augmentation.md).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from patchwords.data.augment import colour, geometry
from patchwords.data.augment.geometry import Size
from patchwords.data.augment.rounds import Round
from patchwords.ops.draws import Numbers

Formula = Callable[[Numbers, Numbers, int], Numbers]  # share of the full magnitude, sign, side of the picture in pixels

WARPS: dict[str, Callable[[Numbers, Size], Numbers]] = {
    "rotate": geometry.rotation,
    "shear-x": geometry.shear_x,
    "shear-y": geometry.shear_y,
    "translate-x": geometry.translation_x,
    "translate-y": geometry.translation_y,
}


@dataclass(frozen=True, slots=True)
class Table:
    """The operations of a set, each with the formula of its number."""

    full: float  # the magnitude where the share is 1
    most: float  # the largest magnitude that the set knows
    fill: float  # what fills the corners of a turned picture
    interpolation: Literal["bilinear", "nearest"]
    formulas: dict[str, Formula]

    def round(self, which: NDArray[Any], share: Numbers, sign: Numbers, spot: Numbers, size: Size) -> Round:
        """`which` counts the operations, -1 is none; a `spot` (2, batch) in [0, 1) is where a hole is cut."""
        drawn = Round.empty(len(which))
        for number, (name, formula) in enumerate(self.formulas.items()):
            chosen = np.flatnonzero(which == number)
            side = size[0] if name.endswith("-y") else size[1]
            amount, fill = formula(share[chosen], sign[chosen], side), np.full(len(chosen), self.fill)
            if name in WARPS:
                drawn.put(chosen, self.interpolation, *WARPS[name](amount, size), fill)
            elif name == "cutout":
                drawn.put(chosen, "cover", *geometry.square(amount, spot[:, chosen], size), fill)
            else:
                drawn.put(chosen, name, amount)
        return drawn


def _no_number() -> Formula:
    return lambda share, sign, side: share


def _either_way(most: float) -> Formula:
    return lambda share, sign, side: sign * share * most


def _around_one(most: float) -> Formula:
    return lambda share, sign, side: 1 + sign * share * most


def _more(most: float) -> Formula:
    return lambda share, sign, side: 0.1 + share * most


def _whole(most: float) -> Formula:
    return lambda share, sign, side: np.trunc(share * most)


TIMM = Table(  # with "inc1", so that every operation grows with the magnitude
    full=10,
    most=10,
    fill=128 / 255,
    interpolation="bilinear",
    formulas={
        "autocontrast": _no_number(),
        "equalise": _no_number(),
        "invert": _no_number(),
        "rotate": _either_way(30),
        "posterise": lambda share, sign, side: colour.step_of_bits(4 - np.trunc(share * 4)),
        "solarise": lambda share, sign, side: 256 - np.trunc(share * 256),
        "solarise-add": _whole(110),
        "colour": _around_one(0.9),
        "contrast": _around_one(0.9),
        "brightness": _around_one(0.9),
        "sharpness": _around_one(0.9),
        "shear-x": _either_way(0.3),
        "shear-y": _either_way(0.3),
        "translate-x": lambda share, sign, side: sign * share * 0.45 * side,
        "translate-y": lambda share, sign, side: sign * share * 0.45 * side,
    },
)

TORCHVISION = Table(
    full=30,
    most=30,
    fill=0.0,
    interpolation="bilinear",
    formulas={
        "identity": _no_number(),
        "shear-x": _either_way(0.3),
        "shear-y": _either_way(0.3),
        "translate-x": lambda share, sign, side: np.trunc(sign * share * (150 / 331 * side)),
        "translate-y": lambda share, sign, side: np.trunc(sign * share * (150 / 331 * side)),
        "rotate": _either_way(30),
        "brightness": _around_one(0.9),
        "colour": _around_one(0.9),
        "contrast": _around_one(0.9),
        "sharpness": _around_one(0.9),
        "posterise": lambda share, sign, side: colour.step_of_bits(8 - np.round(share * 4)),
        "solarise": lambda share, sign, side: 255 - share * 255,
        "autocontrast": _no_number(),
        "equalise": _no_number(),
    },
)

TORCHVISION_WIDE = Table(
    full=30,
    most=30,
    fill=0.0,
    interpolation="bilinear",
    formulas={
        **TORCHVISION.formulas,
        "shear-x": _either_way(0.99),
        "shear-y": _either_way(0.99),
        "translate-x": lambda share, sign, side: np.trunc(sign * share * 32),
        "translate-y": lambda share, sign, side: np.trunc(sign * share * 32),
        "rotate": _either_way(135),
        "brightness": _around_one(0.99),
        "colour": _around_one(0.99),
        "contrast": _around_one(0.99),
        "sharpness": _around_one(0.99),
        "posterise": lambda share, sign, side: colour.step_of_bits(8 - np.round(share * 6)),
    },
)

BIG_VISION = Table(
    full=10,
    most=30,
    fill=128 / 255,
    interpolation="nearest",
    formulas={
        "autocontrast": _no_number(),
        "equalise": _no_number(),
        "invert": _no_number(),
        "rotate": _either_way(30),
        # TensorFlow moves 8-bit numbers by 0 to 7 places, whatever it is asked for.
        "posterise": lambda share, sign, side: colour.step_of_bits(np.clip(np.trunc(share * 4), 1, 8)),
        # The threshold is an 8-bit number and overflows: magnitudes 0, 10 and 20 all invert the whole picture.
        "solarise": lambda share, sign, side: np.trunc(share * 256) % 256,
        "colour": _more(1.8),
        "contrast-of-area": _more(1.8),
        "brightness": _more(1.8),
        "sharpness": _more(1.8),
        "shear-x": _either_way(0.3),
        "shear-y": _either_way(0.3),
        "translate-x": _either_way(100),
        "translate-y": _either_way(100),
        "cutout": _whole(40),
        "solarise-add": _whole(110),
    },
)
