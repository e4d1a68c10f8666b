"""Patches behind the special tokens, with positions added, in one pass over the memory."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from patchwords.speed.kernels.launch import block


@triton.jit
def _sequence(patches_at, front_at, rows_at, x_at, count, prefix, width, BLOCK: tl.constexpr):
    place, picture = tl.program_id(0), tl.program_id(1).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    inside = cols < width
    if place < prefix:
        x = tl.load(front_at + place * width + cols, mask=inside, other=0.0).to(tl.float32)
    else:
        row = place - prefix
        x = tl.load(rows_at + row * width + cols, mask=inside, other=0.0).to(tl.float32)
        x += tl.load(patches_at + (picture * count + row) * width + cols, mask=inside, other=0.0).to(tl.float32)
    at = (picture * (prefix + count) + place) * width + cols
    tl.store(x_at + at, x.to(x_at.dtype.element_ty), mask=inside)


def sequence(patches: Tensor, front: Tensor, rows: Tensor, dtype: torch.dtype) -> Tensor:
    batch, count, width = patches.shape
    prefix = front.shape[0]
    x = torch.empty(batch, prefix + count, width, dtype=dtype, device=patches.device)
    warps = max(1, min(8, block(width) // 512))
    _sequence[(prefix + count, batch)](
        patches.contiguous(), front.contiguous(), rows.contiguous(), x, count, prefix, width,
        BLOCK=block(width), num_warps=warps,
    )  # fmt: skip
    return x
