"""Losses that are no numbers, found without waiting for the device at every step."""

from typing import NamedTuple

import torch
from torch import Tensor

EVERY = 10  # steps between two looks


class Bad(NamedTuple):
    step: int
    loss: float
    norm: float


class Guard:
    """Remembers loss and gradient norm of the last steps on the device, and looks at them together."""

    def __init__(self, norms: bool):
        self.norms = norms  # with fp16 an infinite norm is the scaler's business
        self.steps: list[int] = []
        self.values: list[Tensor] = []

    def add(self, step: int, loss: Tensor, norm: Tensor) -> None:
        self.steps.append(step)
        self.values.append(torch.stack([loss.float(), norm.float() if self.norms else loss.float()]))

    def due(self) -> bool:
        return len(self.steps) >= EVERY

    def look(self) -> Bad | None:
        """The first step since the last look that was not finite."""
        if not self.steps:
            return None
        values = torch.stack(self.values).cpu()  # (steps, 2): the one wait
        wrong = (~values.isfinite()).any(1).tolist()
        steps, self.steps, self.values = self.steps, [], []
        if True not in wrong:
            return None
        first = wrong.index(True)
        return Bad(steps[first], float(values[first, 0]), float(values[first, 1]))
