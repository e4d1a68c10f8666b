"""Section 3.2: learned tables and kernels for another resolution. Resampling happens once, when weights are loaded."""

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
