"""Pillow's antialiased resampling as matrices, so that a device can do it for a whole batch."""

from collections.abc import Callable

import torch
from torch import Tensor

from patchwords.data.preprocess import Interpolation


def weights(start: Tensor, stop: Tensor, given: int, wanted: int, interpolation: Interpolation) -> Tensor:
    """(n, wanted, given): what each pixel wanted takes of each one given, between shares `start` and `stop` of them."""
    return spread(start * given, stop * given, torch.full_like(start, given), given, wanted, interpolation)


def spread(start: Tensor, stop: Tensor, side: Tensor, given: int, wanted: int, interpolation: Interpolation) -> Tensor:
    """The same from pixel `start` to `stop`, for pictures of `side` pixels (n,), at most `given`: beyond lies black."""
    kernel, reach = KERNELS[interpolation]
    start, side = start[:, None, None], side[:, None, None]
    step = (stop[:, None, None] - start) / wanted  # given pixels a pixel
    centres = start + (torch.arange(wanted, device=start.device)[:, None] + 0.5) * step  # (n, wanted, 1)
    sources = torch.arange(given, device=start.device) + 0.5
    found = kernel(((sources - centres) / step.clamp(min=1)).clamp_(-reach, reach))  # wider where it is made smaller
    found *= sources < side
    inside = (centres >= 0) & (centres <= side)
    return found * (inside / found.sum(dim=-1, keepdim=True).clamp(min=1e-6))


def _triangle(x: Tensor) -> Tensor:
    return 1 - x.abs()


def _cubic(x: Tensor) -> Tensor:
    """Keys' kernel with a = -1/2."""
    x = x.abs()
    near, far = (1.5 * x - 2.5) * x * x + 1, ((-0.5 * x + 2.5) * x - 4) * x + 2
    return torch.where(x < 1, near, far)


def _lanczos(x: Tensor) -> Tensor:
    return torch.sinc(x) * torch.sinc(x / 3)


# Each is zero where it ends, at so many pixels from its middle.
KERNELS: dict[str, tuple[Callable[[Tensor], Tensor], int]] = {
    "bilinear": (_triangle, 1),
    "bicubic": (_cubic, 2),
    "lanczos": (_lanczos, 3),
}
