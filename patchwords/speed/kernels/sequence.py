"""Patches behind the special tokens, with positions added: the plain twin of `sequence_triton`."""

import torch
from torch import Tensor

from patchwords.speed.kernels.norm import single


def sequence(patches: Tensor, front: Tensor, rows: Tensor, dtype: torch.dtype) -> Tensor:
    """(batch, count, width) + rows (count, width), behind what stands in front of every picture, (prefix, width)."""
    special = front.expand(patches.shape[0], *front.shape)
    return torch.cat([special.to(dtype), (single(patches) + rows).to(dtype)], 1)
