"""A matrix lying the other way round, read and written in whole lines of the memory."""

import triton
import triton.language as tl
from torch import Tensor

SIZE = 64  # of a tile, both ways


@triton.jit
def _turned(x_at, y_at, rows, width, SIZE: tl.constexpr):
    row = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    col = tl.program_id(1) * SIZE + tl.arange(0, SIZE)
    x = tl.load(x_at + row[:, None] * width + col[None, :], mask=(row < rows)[:, None] & (col < width)[None, :])
    tl.store(
        y_at + col[:, None] * rows + row[None, :], tl.trans(x), mask=(col < width)[:, None] & (row < rows)[None, :]
    )


def turned(matrix: Tensor) -> Tensor:
    assert matrix.is_contiguous()
    rows, width = matrix.shape
    made = matrix.new_empty(width, rows)
    _turned[(triton.cdiv(rows, SIZE), triton.cdiv(width, SIZE))](matrix, made, rows, width, SIZE=SIZE, num_warps=4)
    return made
