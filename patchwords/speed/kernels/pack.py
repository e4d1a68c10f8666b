"""The gradients of q, k and v side by side, as one matrix has made them: the plain twin of `pack_triton`."""

import torch
from torch import Tensor

from patchwords.speed.kernels.norm import single


def pack(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Three of (rows, width) as (rows, 3 · width), and its sum over rows."""
    packed = torch.cat([q, k, v], 1)
    return packed, single(packed).sum(0)
