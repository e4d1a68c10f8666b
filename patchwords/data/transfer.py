"""From the host to a device, without waiting for either."""

from collections.abc import Sequence
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor


def onto(parts: Sequence[NDArray[Any]], device: torch.device) -> Tensor:
    """Arrays in one, along their first axis; for CUDA they are laid into pinned memory, which torch keeps for reuse."""
    pieces = [torch.from_numpy(part) for part in parts]
    if device.type != "cuda":
        return (torch.cat(pieces) if len(pieces) > 1 else pieces[0]).to(device)
    shape = (sum(len(piece) for piece in pieces), *pieces[0].shape[1:])
    pinned = torch.empty(shape, dtype=pieces[0].dtype, pin_memory=True)
    torch.cat(pieces, out=pinned)
    return pinned.to(device, non_blocking=True)
