"""The gradients of q, k and v side by side and their sum over rows, in one pass over the memory."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from patchwords.speed.kernels.launch import programs
from patchwords.speed.kernels.sums_triton import summed

ROWS, COLS = 16, 128  # of a tile


@triton.jit
def _pack(q_at, k_at, v_at, packed_at, parts_at, rows, width, ROWS: tl.constexpr, COLS: tl.constexpr):
    across = tl.cdiv(width, COLS)
    part = tl.program_id(0) // across
    first, step = tl.program_id(1), tl.num_programs(1)
    cols = (tl.program_id(0) % across) * COLS + tl.arange(0, COLS)
    if part == 0:
        source = q_at
    elif part == 1:
        source = k_at
    else:
        source = v_at
    sums = tl.zeros((ROWS, COLS), dtype=tl.float32)
    for start in range(first * ROWS, rows, step * ROWS):
        row = (start + tl.arange(0, ROWS)).to(tl.int64)
        inside = (row < rows)[:, None] & (cols < width)[None, :]
        x = tl.load(source + row[:, None] * width + cols[None, :], mask=inside, other=0.0)
        tl.store(packed_at + row[:, None] * (3 * width) + part * width + cols[None, :], x, mask=inside)
        sums += x.to(tl.float32)
    tl.store(parts_at + first.to(tl.int64) * (3 * width) + part * width + cols, tl.sum(sums, 0), mask=cols < width)


def pack(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    rows, width = q.shape
    across = 3 * triton.cdiv(width, COLS)
    down = min(triton.cdiv(rows, ROWS), max(1, programs(q.device) // across))
    packed = torch.empty(rows, 3 * width, dtype=q.dtype, device=q.device)
    parts = torch.empty(down, 3 * width, dtype=torch.float32, device=q.device)
    _pack[(across, down)](
        q.contiguous(), k.contiguous(), v.contiguous(), packed, parts, rows, width, ROWS=ROWS, COLS=COLS, num_warps=4
    )
    return packed, summed(parts)
