"""Section 3.2: learned tables and kernels for another resolution. Resampling happens once, when weights are loaded.

In a forward (`stretch_table`) it is a product with constant matrices: exact, compiled, deterministic on every device.
"""

from functools import lru_cache
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

Convention = Literal["paper", "bicubic", "bicubic-antialias", "torchvision"]

# How each code base interpolates: the official one is bilinear with aligned corners (scipy's zoom of order 1).
CONVENTIONS: dict[Convention, dict[str, str | bool]] = {
    "paper": {"mode": "bilinear", "align_corners": True},
    "bicubic": {"mode": "bicubic", "align_corners": False},  # transformers, DeiT, MAE
    "bicubic-antialias": {"mode": "bicubic", "align_corners": False, "antialias": True},  # timm
    "torchvision": {"mode": "bicubic", "align_corners": True},
}

Grid = tuple[int, int]


def resample_table(table: Tensor, old: Grid, new: Grid, convention: Convention = "paper") -> Tensor:
    """A position table (1, special + patches, width) for another patch grid; the special rows are left alone."""
    if old == new:
        return table
    special = table.shape[1] - old[0] * old[1]
    maps = table[:, special:].double().mT.unflatten(2, old)  # (1, width, rows, cols)
    maps = F.interpolate(maps, size=new, **CONVENTIONS[convention])  # type: ignore[arg-type]
    return torch.cat([table[:, :special], maps.flatten(2).mT.to(table.dtype)], 1)


def stretch_table(table: Tensor, old: Grid, new: Grid) -> Tensor:
    """The same as `resample_table` by the convention "bicubic", for tables that learn through it."""
    special = table.shape[1] - old[0] * old[1]
    down, across = (cubic(*sides, table.dtype, table.device) for sides in zip(old, new, strict=True))
    maps = torch.einsum("nr,mc,brcw->bnmw", down, across, table[:, special:].unflatten(1, old))
    return torch.cat([table[:, :special], maps.flatten(1, 2)], 1)


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
def cubic(old: int, new: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """The matrix (new, old) that resamples a line, made once; a compiler takes it as it is."""
    return _cubic(old, new, dtype, device)


@lru_cache(maxsize=64)
@torch.inference_mode(False)  # it will be needed by a backward pass, whoever asks first
def _cubic(old: int, new: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    each = torch.eye(old, dtype=torch.float64)[:, None, :, None]  # (old, 1, old, 1): a line each
    lines = F.interpolate(each, size=(new, 1), mode="bicubic", align_corners=False)
    return lines[:, 0, :, 0].mT.to(device, dtype)


def resample_window(table: Tensor, old: Grid, new: Grid) -> Tensor:
    """Swin's biases (offsets, heads) for another window: the map of all offsets, bicubic."""
    sides, others = ((2 * window[0] - 1, 2 * window[1] - 1) for window in (old, new))
    return resample_table(table[None], sides, others, "bicubic")[0]


def resample_line(table: Tensor, length: int) -> Tensor:
    """Rows of a (rows, width) table stretched to another length, linearly, ends on ends."""
    if table.shape[0] == length:
        return table
    line = F.interpolate(table.double().mT[None], size=length, mode="linear", align_corners=True)
    return line[0].mT.to(table.dtype).contiguous()


def resize_kernel(kernel: Tensor, patch: Grid) -> Tensor:
    """FlexiViT's pseudo-inverse resize of (width, channels, height, width) kernels.

    The new kernel gives on enlarged patches what the old one gave on the patches themselves.
    """
    old = (kernel.shape[2], kernel.shape[3])
    if old == patch:
        return kernel
    basis = torch.eye(old[0] * old[1], dtype=torch.float64).unflatten(1, old)[:, None]
    enlarge = F.interpolate(basis, size=patch, mode="bilinear", align_corners=False, antialias=True).flatten(1).mT
    inverse = torch.linalg.pinv(enlarge.mT)  # (new pixels, old pixels)
    resized = kernel.double().flatten(2) @ inverse.mT
    return resized.unflatten(2, patch).to(kernel.dtype)
