"""Where the numbers are made: the device that was named, or the best there is, and what it is called."""

import os
import platform
import re
from pathlib import Path

import torch

from patchwords.errors import UsageError

WORDS = r"(cpu|cuda|mps)(:\d+)?"  # of all that torch knows, and few have
CHOICE = "choose auto, cpu, cuda, cuda:0 or mps"
QUEUES = ("CUDA_DEVICE_MAX_CONNECTIONS", "32")  # of a GPU, as many as there can be, where nobody has said otherwise
MPS = ("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps")  # where the service listens by which processes share a GPU


def choose(device: str, local: int = 0) -> torch.device:
    """`auto` is a GPU where there is one; under torchrun each process takes its own.

    Streams share the queues of a GPU. With the driver's eight, some of the many that decode pictures stand in line
    behind a training step, and all wait for them; the driver is told before anything is done there. Processes that
    share a GPU share its queues too: with so many each, an H200 had enough for three.
    """
    if not Path(os.environ.get(*MPS)).exists():
        os.environ.setdefault(*QUEUES)
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    if not isinstance(device, str) or not re.fullmatch(WORDS, device, re.ASCII):
        raise UsageError(f"device {device!r} cannot be used (nothing here is called so): {CHOICE}")
    try:
        chosen = torch.device(device)
        if chosen.type == "cuda" and chosen.index is None:
            chosen = torch.device("cuda", local)
        torch.empty(0, device=chosen)
    except (RuntimeError, AssertionError) as error:
        missing = isinstance(error, NotImplementedError)  # with a list of all that this torch was built for
        reason = "this torch was built without it" if missing else str(error).partition("\n")[0]
        raise UsageError(f"device {device!r} cannot be used ({reason}): {CHOICE}") from None
    return chosen


def called(device: torch.device) -> str:
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
