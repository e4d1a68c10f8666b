"""Whether Triton's kernels can be used on a device."""

from importlib.util import find_spec
from typing import Literal

import torch

from patchwords.errors import UsageError
from patchwords.speed.kernels.table import Kernels, fast

Choice = Literal["auto", "plain", "fused"]


def chosen(choice: Choice, device: torch.device, precision: str, *, compiled: bool) -> tuple[Kernels | None, str]:
    """The kernels of fused blocks, or None for the model as it is written; and a sentence on which it became."""
    reason = _objection(device, precision, compiled=compiled)
    if choice == "fused" and reason:
        raise UsageError(f"kernels 'fused' cannot be used: {reason}; choose auto or plain")
    if choice == "plain" or reason:
        return None, f"kernels: plain ({reason or 'as asked'})"
    return fast(), "kernels: fused"


def _objection(device: torch.device, precision: str, *, compiled: bool) -> str:
    if device.type != "cuda":
        return f"they are for GPUs, and the device is {device.type}"
    if precision not in ("bf16", "fp8"):
        return f"they are for bf16, and the precision is {precision}"
    if compiled:
        return "compile makes its own"
    if find_spec("triton") is None:
        return "Triton is not installed"
    return ""
