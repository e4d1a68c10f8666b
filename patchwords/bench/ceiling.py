"""What the device can do at best: the matrix product that it is fastest at, measured beside everything else."""

import platform
from typing import Any

import numpy as np
import torch

from patchwords.bench.measure import Effort, in_turns
from patchwords.speed.device import called

SIDES = {"cuda": (8192, torch.bfloat16), "cpu": (2048, torch.float32), "mps": (4096, torch.float16)}
EFFORT = Effort(rounds=5, seconds=0.05)


def ceiling(device: torch.device) -> float:
    """Operations a second (two for every multiply-add) of a large square product of random numbers."""
    side, kind = SIDES[device.type]
    left, right = (torch.randn(side, side, device=device, dtype=kind) for _ in range(2))
    (seconds,) = in_turns([lambda _: left @ right], device, EFFORT)
    return 2 * side**3 / float(np.median(seconds))


def machine(device: torch.device, libraries: dict[str, str]) -> dict[str, Any]:
    """What a table must say of where it was made."""
    return {
        "device": called(device),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        **libraries,
    }
