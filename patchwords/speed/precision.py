"""Mixed precision: which numbers the matrix products are made in."""

from contextlib import AbstractContextManager, nullcontext
from typing import Literal

import torch

from patchwords.errors import UsageError

Precision = Literal["float32", "bf16", "fp16"]
Working = Literal["float32", "bf16", "fp16", "fp8", "int8"]  # in which a model that has learned can be asked
KINDS = {"bf16": torch.bfloat16, "fp16": torch.float16}


def autocast(precision: Precision, device: torch.device) -> AbstractContextManager[object]:
    """The context of a forward pass; parameters stay in float32."""
    if precision == "float32":
        return nullcontext()
    return torch.autocast(device.type, KINDS[precision])


def check_precision(precision: Precision, device: torch.device) -> None:
    """Refuses what a device cannot do."""
    if precision == "fp16" and device.type == "cpu":
        raise UsageError("precision fp16 needs a GPU: choose bf16 or float32 on a CPU")


def scaler(precision: Precision, device: torch.device) -> torch.amp.GradScaler:
    """What keeps small gradients of fp16 above zero; it does nothing for the others."""
    check_precision(precision, device)
    return torch.amp.GradScaler(device.type, enabled=precision == "fp16")
