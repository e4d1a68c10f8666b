"""How often a prepared model says what the plain one says."""

from collections.abc import Callable

import torch
from torch import Tensor

from patchwords.errors import UsageError

BATCH = 64  # pictures at a time


@torch.inference_mode()
def agreement(plain: Callable[[Tensor], Tensor], fast: Callable[[Tensor], Tensor], images: Tensor) -> float:
    """The share of standardised pictures (n, channels, height, width) for which both put the same class first."""
    if not len(images):
        raise UsageError("there are no pictures to agree on: give some")
    same = [plain(some).argmax(1) == fast(some).argmax(1) for some in images.split(BATCH)]
    return torch.cat(same).double().mean().item()
