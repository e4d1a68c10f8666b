"""What a run was computed with, so that a resumed one can say what would change its bits."""

import platform
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from patchwords import __version__

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
        "device": _name(torch.device(device)),
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


def _name(device: torch.device) -> str:
    """The kind of a device and what it is called; of processors also the instructions that torch uses of them."""
    if device.type == "cuda":
        return f"cuda, {torch.cuda.get_device_name(device)}"
    if device.type == "cpu":
        return f"cpu, {_processor()}, {torch.backends.cpu.get_cpu_capability()}"
    return device.type


def _processor() -> str:
    """The processor's name where the system tells it, else its family."""
    listing = Path("/proc/cpuinfo")
    lines = listing.read_text(encoding="utf-8", errors="replace").splitlines() if listing.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
