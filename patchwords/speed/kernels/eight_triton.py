"""A matrix turned and rounded to eight bits at once: it is read twice, the second time from the cache."""

import triton
import triton.language as tl
from torch import Tensor

from patchwords.speed.kernels.norm import EightRows
from patchwords.speed.kernels.norm_triton import LARGEST, LEAST, eight_rows

ROWS, COLS = 512, 8  # of a tile: eight numbers are what memory gives at a time, and few columns make many programs


@triton.jit
def _turned(x_at, y_at, scale_at, rows, width, ROWS: tl.constexpr, COLS: tl.constexpr):
    col = tl.program_id(0) * COLS + tl.arange(0, COLS)[None, :]
    line = tl.arange(0, ROWS)[:, None]
    most = tl.zeros((ROWS, COLS), dtype=tl.float32)
    for start in range(0, rows, ROWS):
        row = start + line
        x = tl.load(x_at + row * width + col, mask=(row < rows) & (col < width), other=0.0)
        most = tl.maximum(most, tl.abs(x.to(tl.float32)))
    scale = tl.maximum(tl.max(most, 0), LEAST) / LARGEST
    inverse = (1.0 / scale)[None, :]
    for start in range(0, rows, ROWS):
        row = start + line
        inside = (row < rows) & (col < width)
        x = tl.load(x_at + row * width + col, mask=inside, other=0.0).to(tl.float32)
        tl.store(y_at + col * rows + row, (x * inverse).to(y_at.dtype.element_ty), mask=inside)
    each = tl.program_id(0) * COLS + tl.arange(0, COLS)
    tl.store(scale_at + each, scale, mask=each < width)


def turned(matrix: Tensor) -> EightRows:
    assert matrix.is_contiguous()
    rows, width = matrix.shape
    made = eight_rows((width, rows), matrix.device)
    _turned[(triton.cdiv(width, COLS),)](matrix, *made, rows, width, ROWS=ROWS, COLS=COLS, num_warps=4)
    return made
