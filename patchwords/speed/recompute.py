"""Activation checkpointing: trade a second forward of each unit for the memory of what it would save."""

from functools import partial

from torch import nn
from torch.utils.checkpoint import checkpoint

from patchwords.layers.unit import Unit


def recompute(model: nn.Module) -> None:
    """From now on every block or bottleneck of `model` keeps its input alone and runs again in the backward pass."""
    for unit in model.modules():
        if isinstance(unit, Unit) and "forward" not in vars(unit):
            vars(unit)["forward"] = partial(checkpoint, unit.forward, use_reentrant=False)
