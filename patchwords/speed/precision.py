"""Mixed precision: which numbers the matrix products are made in."""

from contextlib import AbstractContextManager, nullcontext
from typing import Literal

import torch

from patchwords.errors import UsageError

Mixed = Literal["float32", "bf16", "fp16"]  # in which any module can work
Precision = Literal["float32", "bf16", "fp16", "fp8"]  # in which a model can learn
Working = Literal["float32", "bf16", "fp16", "fp8", "int8"]  # in which a model that has learned can be asked
KINDS = {"bf16": torch.bfloat16, "fp16": torch.float16}
EIGHT_BITS = (8, 9)  # the first compute capability with matrix products in eight bits


def mixed(precision: Precision) -> Mixed:
    """What works in no eight bits: all that is not a fused block that learns, and others' models."""
    return "bf16" if precision == "fp8" else precision


def autocast(precision: Precision, device: torch.device) -> AbstractContextManager[object]:
    """The context of a forward pass; parameters stay in float32."""
    if precision == "float32":
        return nullcontext()
    return torch.autocast(device.type, KINDS[mixed(precision)])


def check_precision(precision: Precision, device: torch.device) -> None:
    """Refuses what a device cannot do."""
    if precision == "fp16" and device.type == "cpu":
        raise UsageError("precision fp16 needs a GPU: choose bf16 or float32 on a CPU")
    if precision == "fp8":
        expect_eight_bits(device)


def expect_eight_bits(device: torch.device) -> None:
    """Refuses a device without matrix products in eight bits."""
    needs = "precision fp8 needs a GPU with products in eight bits"
    if device.type != "cuda":
        raise UsageError(f"{needs}, and the device is {device.type}: choose bf16 or float32")
    if torch.cuda.get_device_capability(device) < EIGHT_BITS:
        raise UsageError(f"{needs}, and {torch.cuda.get_device_name(device)} has none: choose bf16")


def scaler(precision: Precision, device: torch.device) -> torch.amp.GradScaler:
    """What keeps small gradients of fp16 above zero; it does nothing for the others."""
    check_precision(precision, device)
    return torch.amp.GradScaler(device.type, enabled=precision == "fp16")
