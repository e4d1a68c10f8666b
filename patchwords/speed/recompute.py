"""Activation checkpointing: trade a second forward of each unit for the memory of what it would save."""

from functools import partial

from torch import nn
from torch.utils.checkpoint import checkpoint

from patchwords.layers.unit import Unit


def recompute(module: nn.Module) -> None:
    """From now on every block or bottleneck keeps its input alone and runs again in the backward pass."""
    for child in module.children():
        if not isinstance(child, Unit):
            recompute(child)  # units within a unit run again with it
        elif not isinstance(vars(child).get("forward"), partial):  # one that was fused runs again fused
            vars(child)["forward"] = partial(checkpoint, child.forward, use_reentrant=False)
