"""What travels between the parts: the sequence z, its special tokens first, then the patches row by row."""

from collections import Counter
from typing import NamedTuple

import torch
from torch import Tensor, nn

from patchwords.errors import UsageError

Grid = tuple[int, int]


class Tokens(NamedTuple):
    """A sequence with `prefix` special tokens, then patches of a `grid` (all of them, or a subset)."""

    x: Tensor  # (batch, prefix + patches, width)
    prefix: int
    grid: Grid

    @property
    def special(self) -> Tensor:
        return self.x[:, : self.prefix]

    @property
    def patches(self) -> Tensor:
        return self.x[:, self.prefix :]

    @property
    def map(self) -> Tensor:
        """The patches as a picture: (batch, width, rows, cols)."""
        return self.patches.mT.unflatten(2, self.grid)

    def replace(self, x: Tensor) -> "Tokens":
        return self._replace(x=x)


class Special(nn.Module):
    """Learned tokens in front of the patches, one parameter a name: `class_token` is the x_class of eq. 1."""

    def __init__(self, names: tuple[str, ...], width: int):
        super().__init__()
        self.counts = dict(Counter(names))
        for name, count in self.counts.items():
            self.register_parameter(f"{name}_token", nn.Parameter(torch.zeros(1, count, width)))

    def forward(self, patches: Tensor) -> Tensor:
        """(batch, patches, width) to (batch, prefix + patches, width)."""
        special = [self.get_parameter(f"{name}_token").expand(patches.shape[0], -1, -1) for name in self.counts]
        return torch.cat([*special, patches], 1)


def check_special(names: tuple[str, ...]) -> None:
    rest = list(names)
    for name in ("class", "distillation"):  # at most one of each, in this order
        rest = rest[1:] if rest[:1] == [name] else rest
    if not isinstance(names, tuple) or any(name != "register" for name in rest):
        raise UsageError(
            f"special {names!r} is not allowed: at most one class first, then at most one distillation, "
            "then any register"
        )
