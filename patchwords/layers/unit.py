"""The unit that a deep model repeats."""

import abc

from torch import nn


class Unit(nn.Module, abc.ABC):
    """A block or bottleneck: what recomputation, sharding and layer-wise learning rates take as one layer."""
