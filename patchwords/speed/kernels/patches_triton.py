"""Pictures as rows of patches: a program reads lines of a picture as they lie, and writes every patch its share."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from patchwords.speed.kernels.launch import block

ACROSS = 256  # pixels of a line at a time


@triton.jit
def _patches(
    images_at, flat_at, of_image, of_channel, of_line, of_pixel, rows, cols, channels,
    TALL: tl.constexpr, WIDE: tl.constexpr, LINES: tl.constexpr, ACROSS: tl.constexpr,
):  # fmt: skip
    strip, channel = tl.program_id(0).to(tl.int64), tl.program_id(1)
    line = tl.arange(0, LINES)[:, None]
    pixel = tl.program_id(2) * ACROSS + tl.arange(0, ACROSS)[None, :]
    inside = (line < TALL) & (pixel < cols * WIDE)
    begin = (strip // rows) * of_image + channel * of_channel + (strip % rows) * TALL * of_line
    x = tl.load(images_at + begin + line * of_line + pixel * of_pixel, mask=inside, other=0.0)
    patch = strip * cols + pixel // WIDE
    place = ((patch * channels + channel) * TALL + line) * WIDE + pixel % WIDE
    tl.store(flat_at + place, x.to(flat_at.dtype.element_ty), mask=inside)


def patches(images: Tensor, patch: tuple[int, int], dtype: torch.dtype) -> Tensor:
    (batch, channels, height, width), (tall, wide) = images.shape, patch
    rows, cols = height // tall, width // wide
    flat = torch.empty(batch * rows * cols, channels * tall * wide, dtype=dtype, device=images.device)
    across = min(ACROSS, block(width))
    _patches[(batch * rows, channels, triton.cdiv(width, across))](
        images, flat, *images.stride(), rows, cols, channels,
        TALL=tall, WIDE=wide, LINES=block(tall), ACROSS=across, num_warps=8,
    )  # fmt: skip
    return flat
