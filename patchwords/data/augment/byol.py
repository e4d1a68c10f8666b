"""The colour changes of BYOL (Grill et al., 2020), as DINO (Caron et al., 2021) has them: other ones for each crop."""

from dataclasses import dataclass
from itertools import permutations
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from patchwords.data.augment import colour
from patchwords.data.augment.geometry import Size
from patchwords.data.augment.rounds import Round
from patchwords.data.glimpses import kinds
from patchwords.data.order import Indices
from patchwords.errors import UsageError
from patchwords.ops import draws
from patchwords.ops.draws import Numbers
from patchwords.settings import check

JITTERED = ("brightness", "contrast", "colour", "hue")
ORDERS = np.array(list(permutations(range(len(JITTERED)))))  # (24, 4)


@dataclass(frozen=True, kw_only=True, slots=True)
class Byol:
    """Jitter, then grey, then blur, then solarised; what has three probabilities has them by the kind of crop.

    The kinds are the first crop, the other large ones and the small ones (`data.glimpses`).
    """

    kind: ClassVar[str] = "byol"
    jitter: float = 0.8  # a probability, like the next three
    grey: float = 0.2
    blur: tuple[float, ...] = (1.0, 0.1, 0.5)
    solarise: tuple[float, ...] = (0.0, 0.2, 0.0)
    brightness: float = 0.4  # factors of 1 - b to 1 + b, like the next two
    contrast: float = 0.4
    saturation: float = 0.2
    hue: float = 0.1  # turned by so much of a circle at most

    def __post_init__(self) -> None:
        check(self)
        for name, shares in {"blur": self.blur, "solarise": self.solarise}.items():
            if len(shares) != 3:
                raise UsageError(f"{name} {list(shares)}: give three, for the first crop, other large and small ones")
        for share in (self.jitter, self.grey, *self.blur, *self.solarise):
            if not 0 <= share <= 1:
                raise UsageError(f"{share} is not a probability: choose a number between 0 and 1")
        for name, most in self._most.items():
            if not 0 <= most <= (0.5 if name == "hue" else 1.0):
                raise UsageError(f"{name} {most} is too strong: choose 0 to {0.5 if name == 'hue' else 1}")

    @property
    def _most(self) -> dict[str, float]:
        strengths = (self.brightness, self.contrast, self.saturation, self.hue)
        return dict(zip(JITTERED, strengths, strict=True))

    def rounds(self, size: Size, seed: int, views: Indices, indices: Indices) -> list[Round]:
        jittered, greyed, blurred, solarised, width = draws.uniform("byol", seed, views, indices, count=5).T
        crop = kinds(views)
        return [
            *self._jitter(jittered < self.jitter, seed, views, indices),
            _where(greyed < self.grey, "grey"),
            _where(blurred < np.array(self.blur)[crop], "blur", *colour.gaussian_taps(0.1 + 1.9 * width)),
            _where(solarised < np.array(self.solarise)[crop], "solarise", np.full(len(width), 128.0)),
        ]

    def _jitter(self, chosen: NDArray[np.bool_], seed: int, views: Indices, indices: Indices) -> list[Round]:
        """One of the four each round, in an order of the picture's own."""
        *numbers, which = draws.uniform("byol-jitter", seed, views, indices, count=len(JITTERED) + 1).T
        order = ORDERS[(which * len(ORDERS)).astype(np.int64)]  # (batch, 4)
        rounds = [Round.empty(len(which)) for _ in JITTERED]
        for place, drawn in enumerate(rounds):
            for number, (name, most) in enumerate(self._most.items()):
                here = np.flatnonzero(chosen & (order[:, place] == number))
                drawn.put(here, name, (name != "hue") + most * (2 * numbers[number][here] - 1))
        return rounds


def _where(chosen: NDArray[np.bool_], name: str, *columns: Numbers) -> Round:
    drawn, here = Round.empty(len(chosen)), np.flatnonzero(chosen)
    drawn.put(here, name, *(column[here] for column in columns))
    return drawn
