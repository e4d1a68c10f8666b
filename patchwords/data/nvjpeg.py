"""JPEG files decoded on an NVIDIA GPU: the one door to torchvision, which is found when it is asked for."""

import importlib
from collections.abc import Sequence
from io import BytesIO

import torch
from PIL import Image
from torch import Tensor

LIBRARY = "torchvision"  # never needed: `patchwords.data.decoder` has others


def objection(device: torch.device) -> str:
    """Why files cannot be decoded on a device, found by trying; nothing if they can."""
    file = BytesIO()
    Image.new("RGB", (64, 64)).save(file, "JPEG")
    try:
        _decoded([torch.frombuffer(bytearray(file.getvalue()), dtype=torch.uint8)], device)
    except Exception as error:  # a library that does not fit its torch fails in every way there is
        return f"{LIBRARY} says: {str(error).partition(chr(10))[0][:200] or type(error).__name__}"
    return ""


def decode(files: Sequence[Tensor], device: torch.device) -> list[Tensor | None]:
    """Bytes of files (on the host) to uint8 pictures (3, height, width) on the device; None for what it refuses."""
    try:
        return _decoded(files, device)
    except torch.OutOfMemoryError:
        raise
    except RuntimeError:
        return [_alone(file, device) for file in files]


def _alone(file: Tensor, device: torch.device) -> Tensor | None:
    try:
        return _decoded([file], device)[0]
    except torch.OutOfMemoryError:
        raise
    except RuntimeError:  # whatever is wrong with it: Pillow has the last word
        return None


def _decoded(files: Sequence[Tensor], device: torch.device) -> list[Tensor | None]:
    torch.cuda.current_stream(device).synchronize()  # it writes from a stream of its own to memory that was in use here
    library = importlib.import_module(f"{LIBRARY}.io")
    found: list[Tensor | None] = library.decode_jpeg(list(files), mode=library.ImageReadMode.RGB, device=device)
    return found
