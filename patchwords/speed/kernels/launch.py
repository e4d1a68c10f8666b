"""How Triton's kernels are launched: blocks that are powers of two, and as many programs as fill the device."""

from functools import lru_cache

import torch


def block(width: int) -> int:
    """The power of two that holds a row."""
    return 1 << (width - 1).bit_length()


@lru_cache
def programs(device: torch.device, each: int = 8) -> int:
    """For kernels that go on from row to row and keep sums: `each` on a multiprocessor; interpreted, a few."""
    if device.type != "cuda":
        return 4
    return each * torch.cuda.get_device_properties(device).multi_processor_count
