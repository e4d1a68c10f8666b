"""Which of torch's attention kernels is taken first where several can do it."""

from contextlib import AbstractContextManager, nullcontext

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

# By their speed at a ViT's lengths; torch's own order begins with flash.
FASTEST_FIRST = [
    SDPBackend.CUDNN_ATTENTION,
    SDPBackend.FLASH_ATTENTION,
    SDPBackend.EFFICIENT_ATTENTION,
    SDPBackend.MATH,
]


def fastest(device: torch.device) -> AbstractContextManager[object]:
    """The context of a forward pass, and of a backward pass that makes it again; a CPU has one kernel alone."""
    if device.type != "cuda":
        return nullcontext()
    return sdpa_kernel(FASTEST_FIRST, set_priority=True)
