"""What a run was computed with, so that a resumed one can say what would change its bits."""

import platform
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from patchwords import __version__
from patchwords.speed.device import called

# What can change the last bits of a result, in words.
DECISIVE = {
    "patchwords": "the version of patchwords",
    "torch": "the version of torch",
    "numpy": "the version of numpy",
    "pillow": "the version of pillow",
    "device": "the device",
    "threads": "the number of threads",
    "world_size": "the number of processes",
}


def environment(device: torch.device | str) -> dict[str, Any]:
    """Versions, machine, device and threads of this process, as they are now."""
    return {
        "patchwords": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "pillow": version("pillow"),
        "platform": platform.platform(),
        "device": called(torch.device(device)),
        "threads": torch.get_num_threads(),
        "world_size": dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1,
        "deterministic": torch.are_deterministic_algorithms_enabled(),
    }


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """A sentence for each change after which a resumed run may not end with the same bits."""
    return [
        f"{words} is {new.get(field, 'unknown')} now and was {old.get(field, 'unknown')} before: "
        "the last bits of the result may differ"
        for field, words in DECISIVE.items()
        if old.get(field) != new.get(field)
    ]
