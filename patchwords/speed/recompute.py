"""What is made again in the backward pass instead of being kept: time for memory, in steps.

Fused blocks can make their norms again, or their norms and the hidden layers of their MLPs (`Again`). Any unit can run
again whole: that is `recompute`, activation checkpointing.
"""

from functools import partial
from typing import Literal

from torch import nn
from torch.utils.checkpoint import checkpoint

from patchwords.layers.unit import Unit

Again = Literal["norms", "hidden"]
Recompute = bool | Again  # false: nothing; true: every unit whole


def recompute(module: nn.Module) -> None:
    """From now on every block or bottleneck keeps its input alone and runs again in the backward pass."""
    for child in module.children():
        if not isinstance(child, Unit):
            recompute(child)  # units within a unit run again with it
        elif not isinstance(vars(child).get("forward"), partial):  # one that was fused runs again fused
            vars(child)["forward"] = partial(checkpoint, child.forward, use_reentrant=False)
