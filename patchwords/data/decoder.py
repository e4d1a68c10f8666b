"""Who decodes the pictures of training: Pillow, which all others are measured against, or something faster.

`docs/pictures.md` says how far their pixels may differ. Evaluation always decodes with Pillow.
"""

from collections.abc import Callable
from importlib.util import find_spec
from typing import Literal

import torch

from patchwords.data import nvjpeg
from patchwords.errors import UsageError

Decoder = Literal["auto", "pillow", "simplejpeg", "nvjpeg"]
NEEDS = {"simplejpeg": "simplejpeg", "nvjpeg": "torchvision"}  # what must be installed for it


def chosen(decoder: Decoder, device: torch.device, channels: int, note: Callable[[str], None]) -> Decoder:
    """The one that is asked for, or the fastest that can be used (docs/pictures.md has the figures)."""
    if decoder != "auto":
        if reason := _objection(decoder, device, channels):
            raise UsageError(f'decoder "{decoder}" cannot be used: {reason}; choose "pillow", or "auto"')
        return decoder
    found: Decoder = "pillow" if _objection("nvjpeg", device, channels) else "nvjpeg"
    note(f"JPEG files are decoded by {found}")
    return found


def _objection(decoder: Decoder, device: torch.device, channels: int) -> str:
    if decoder == "pillow":
        return ""
    if find_spec(NEEDS[decoder]) is None:
        return f"{NEEDS[decoder]} is not installed"
    if channels != 3:
        return f"it makes pictures of 3 channels, and the model takes {channels}"
    if device.type != "cuda":
        return f"it leaves the cutting to a GPU by NVIDIA, and the device is {device.type}"
    return nvjpeg.objection(device) if decoder == "nvjpeg" else ""
