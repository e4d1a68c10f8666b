"""The learning rate as a pure function of the step: warm-up, then a shape, then cool-down."""

import math
from dataclasses import dataclass
from typing import Literal

from patchwords.errors import UsageError
from patchwords.settings import check
from patchwords.training import duration

Shape = Literal["cosine", "linear", "constant", "rsqrt"]
TIMESCALE = 10_000  # of rsqrt where there is no warm-up to take it from; big_vision's default


@dataclass(frozen=True, kw_only=True, slots=True)
class Schedule:
    """`start` and `floor` are factors of the rate: where the warm-up's line begins, and where the training ends."""

    warmup: str = "0 steps"
    shape: Shape = "cosine"
    start: float = 0.0
    floor: float = 0.0
    cooldown: str = "0 steps"

    def __post_init__(self) -> None:
        check(self)
        duration.parse(self.warmup)
        duration.parse(self.cooldown)
        for name, factor in {"start": self.start, "floor": self.floor}.items():
            if not 0 <= factor <= 1:
                raise UsageError(f"{name} {factor} is no factor of the learning rate: choose one from 0 to 1")

    def plan(self, *, total: int, per_epoch: float) -> "Plan":
        """This schedule for a training of `total` steps."""
        warmup = duration.steps(self.warmup, per_epoch=per_epoch, total=total)
        cooldown = duration.steps(self.cooldown, per_epoch=per_epoch, total=total)
        if warmup + cooldown > total:
            raise UsageError(
                f"warm-up of {self.warmup} and cool-down of {self.cooldown} are {warmup + cooldown} steps, the whole "
                f"training has {total}: shorten schedule.warmup or schedule.cooldown, for example to 5%"
            )
        return Plan(self.shape, total, warmup, cooldown, self.start, self.floor)


@dataclass(frozen=True, slots=True)
class Plan:
    """A schedule in steps, which are numbered from 0 to total - 1.

    No update is wasted on a rate of zero: the warm-up reaches 1 at its last step (the official code is one step later
    and begins with 0), and the last step stands one step before the floor.
    """

    shape: Shape
    total: int
    warmup: int
    cooldown: int
    start: float
    floor: float

    def rate(self, step: int) -> float:
        """The factor of the learning rate for the update with this number."""
        if step < self.warmup:
            return self.start + (1 - self.start) * (step + 1) / self.warmup
        factor = self._shaped(step - self.warmup, self.total - self.warmup)
        if self.total - step < self.cooldown:
            return self.floor + (factor - self.floor) * (self.total - step) / self.cooldown
        return factor

    def _shaped(self, step: int, steps: int) -> float:
        """The factor, `step` of `steps` after the warm-up."""
        match self.shape:
            case "cosine":
                return self.floor + (1 - self.floor) * (1 + math.cos(math.pi * step / steps)) / 2
            case "linear":
                return self.floor + (1 - self.floor) * (1 - step / steps)
            case "constant":
                return 1.0
            case "rsqrt":  # big_vision's law; its timescale is the warm-up, so that the rate falls as 1 / sqrt(step)
                return max(self.floor, 1 / math.sqrt(1 + step / (self.warmup or TIMESCALE)))
