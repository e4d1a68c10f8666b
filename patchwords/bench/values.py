"""Weights that are worth comparing: what starts at zero or one gets values too, since zeros agree with everything."""

import torch
from torch import Tensor

from patchwords.models.model import Model

SPREAD = 0.02  # as most weights begin with


@torch.no_grad()
def randomised(model: Model) -> Model:
    """The model with noise upon whatever is constant: heads, tokens, biases, norms."""
    for parameter in model.parameters():
        if parameter.min() == parameter.max():
            parameter.add_(torch.randn_like(parameter), alpha=SPREAD)
    return model


def pictures(batch: int, channels: int, image: tuple[int, int], device: torch.device, sets: int) -> list[Tensor]:
    """Several batches of random standardised pictures; never zeros, at which a device is faster than it is."""
    return [torch.randn(batch, channels, *image, device=device) for _ in range(sets)]
