"""Layer norm with the residual sum before it, forward and backward, each one pass over the memory."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from patchwords.speed.kernels import norm as plain
from patchwords.speed.kernels.launch import block, programs
from patchwords.speed.kernels.norm import BetweenGradients, EightRows, Normed, NormGradients
from patchwords.speed.kernels.sums_triton import summed

LARGEST, LEAST = tl.constexpr(plain.LARGEST), tl.constexpr(plain.LEAST)

WIDE = 32 * 32  # numbers of a row that a warp holds, forward: a row within one warp is summed without a barrier


class Backward(NamedTuple):
    """How the backward is launched: sums over rows are held beside the row that is worked on."""

    sums: int
    numbers: int  # of a row that a warp holds
    warps: int  # on a multiprocessor, which go on from row to row
    registers: int  # of a thread: as many as let all of them be there at the same time


TWO = Backward(sums=2, numbers=32 * 8, warps=28, registers=72)
FOUR = Backward(sums=4, numbers=32 * 8, warps=20, registers=96)


@triton.jit
def _forward(
    x_at, branch_at, keep_at, shift_at, weight_at, bias_at, total_at, y_at, mean_at, inverse_at, eight_at, scale_at,
    rows, tokens, width, epsilon,
    BRANCH: tl.constexpr, KEEP: tl.constexpr, SHIFT: tl.constexpr, NORMED: tl.constexpr, EIGHT: tl.constexpr,
    ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    cols = tl.arange(0, BLOCK)[None, :]
    here = row < rows
    inside = here[:, None] & (cols < width)
    place = row.to(tl.int64)[:, None] * width + cols
    x = tl.load(x_at + place, mask=inside, other=0.0).to(tl.float32)
    if BRANCH:
        branch = tl.load(branch_at + place, mask=inside, other=0.0).to(tl.float32)
        if KEEP:
            branch *= tl.load(keep_at + row // tokens, mask=here, other=0.0)[:, None]
        total = (x + branch).to(total_at.dtype.element_ty)
        tl.store(total_at + place, total, mask=inside)
        x = total.to(tl.float32)
    if SHIFT:
        x += tl.load(shift_at + cols, mask=cols < width, other=0.0).to(tl.float32)
    mean = tl.sum(x, 1) / width
    centred = tl.where(inside, x - mean[:, None], 0.0)
    inverse = tl.rsqrt(tl.sum(centred * centred, 1) / width + epsilon)
    weight = tl.load(weight_at + cols, mask=cols < width, other=0.0).to(tl.float32)
    bias = tl.load(bias_at + cols, mask=cols < width, other=0.0).to(tl.float32)
    y = centred * inverse[:, None] * weight + bias
    if NORMED:
        tl.store(mean_at + row, mean, mask=here)
        tl.store(inverse_at + row, inverse, mask=here)
        tl.store(y_at + place, y.to(y_at.dtype.element_ty), mask=inside)
    if EIGHT:
        scale = tl.maximum(tl.max(tl.abs(y), 1), LEAST) / LARGEST
        tl.store(scale_at + row, scale, mask=here)
        tl.store(eight_at + place, (y * (1.0 / scale)[:, None]).to(eight_at.dtype.element_ty), mask=inside)


@triton.jit
def _both(a, b, more_a, more_b):
    """Two sums at a time, with the barriers of one."""
    return a + more_a, b + more_b


@triton.jit
def _backward(
    dy_at, x_at, skip_at, mean_at, inverse_at, weight_at, before_at, after_at, dx_at, parts_at,
    rows, tokens, width,
    SKIP: tl.constexpr, BETWEEN: tl.constexpr, BEFORE: tl.constexpr, AFTER: tl.constexpr,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Row after row, while the next ones are on their way to shared memory: registers would not hold so many."""
    first, step = tl.program_id(0) * ROWS, tl.num_programs(0) * ROWS
    line = tl.arange(0, BLOCK)
    cols = line[None, :]
    across = tl.full((), width, tl.int64)
    far = tl.arange(0, ROWS)[:, None] * width + cols
    weight = tl.load(weight_at + cols, mask=cols < width, other=0.0).to(tl.float32)
    by_weight = tl.zeros((ROWS, BLOCK), dtype=tl.float32)
    by_bias = tl.zeros((ROWS, BLOCK), dtype=tl.float32)
    if BETWEEN:
        skipped = tl.zeros((ROWS, BLOCK), dtype=tl.float32)
        branched = tl.zeros((ROWS, BLOCK), dtype=tl.float32)
    share = 1.0 / width  # of each number in a mean
    for start in tl.range(first, rows, step, num_stages=STAGES):
        row = start + tl.arange(0, ROWS)
        here = row < rows
        inside = (cols < width) & here[:, None]
        place = start * across  # a single number: what is kept for the store, rows later, takes few registers
        dy = tl.load(dy_at + place + far, mask=inside, other=0.0).to(tl.float32)
        x = tl.load(x_at + place + far, mask=inside, other=0.0).to(tl.float32)
        mean = tl.load(mean_at + row, mask=here, other=0.0)[:, None]
        inverse = tl.load(inverse_at + row, mask=here, other=0.0)[:, None]
        hat = x * inverse - mean * inverse  # not zero beyond the width, but dy and the weight are
        scaled = dy * weight
        middle, slope = tl.reduce((scaled, scaled * hat), 1, _both)
        middle, slope = (middle * share)[:, None], (slope * share)[:, None]
        wide = (scaled - middle - hat * slope) * inverse
        if SKIP:
            skip = tl.load(skip_at + place + far, mask=inside, other=0.0).to(tl.float32)
            wide += skip
            if BETWEEN:
                if AFTER:
                    skip *= tl.load(after_at + row // tokens, mask=here, other=0.0)[:, None]
                skipped += skip
        tl.store(dx_at + place + far, wide.to(dx_at.dtype.element_ty), mask=inside)
        by_weight += dy * hat
        by_bias += dy
        if BETWEEN:
            if BEFORE:
                wide *= tl.load(before_at + row // tokens, mask=here, other=0.0)[:, None]
            branched += wide
    SUMS: tl.constexpr = 4 if BETWEEN else 2
    base = parts_at + tl.program_id(0).to(tl.int64) * SUMS * width + line
    tl.store(base, tl.sum(by_weight, 0), mask=line < width)
    tl.store(base + width, tl.sum(by_bias, 0), mask=line < width)
    if BETWEEN:
        tl.store(base + 2 * width, tl.sum(skipped, 0), mask=line < width)
        tl.store(base + 3 * width, tl.sum(branched, 0), mask=line < width)


@triton.jit
def _add(x_at, branch_at, keep_at, total_at, count, each, KEEP: tl.constexpr, BLOCK: tl.constexpr):
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = place < count
    x = tl.load(x_at + place, mask=inside, other=0.0).to(tl.float32)
    branch = tl.load(branch_at + place, mask=inside, other=0.0).to(tl.float32)
    if KEEP:
        branch *= tl.load(keep_at + place // each, mask=inside, other=0.0)
    tl.store(total_at + place, (x + branch).to(total_at.dtype.element_ty), mask=inside)


def add(x: Tensor, branch: Tensor, keep: Tensor | None) -> Tensor:
    total, count, size = torch.empty_like(x), x.numel(), min(2048, block(x.numel()))
    each = count if keep is None else count // keep.shape[0]  # numbers of a picture
    _add[(triton.cdiv(count, size),)](
        x, branch, keep, total, count, each, KEEP=keep is not None, BLOCK=size, num_warps=8
    )
    return total


def norm(x: Tensor, weight: Tensor, bias: Tensor, epsilon: float, shift: Tensor | None = None) -> Normed:
    y, mean, inverse = torch.empty_like(x), *_statistics(x)
    _launch(x, None, None, shift, weight, bias, epsilon, x, y, mean, inverse, None)
    return Normed(x, y, mean, inverse)


def add_norm(x: Tensor, branch: Tensor, keep: Tensor | None, weight: Tensor, bias: Tensor, epsilon: float) -> Normed:
    total, y, mean, inverse = torch.empty_like(x), torch.empty_like(x), *_statistics(x)
    _launch(x, branch, keep, None, weight, bias, epsilon, total, y, mean, inverse, None)
    return Normed(total, y, mean, inverse)


def norm_both(x: Tensor, weight: Tensor, bias: Tensor, epsilon: float) -> tuple[Normed, EightRows]:
    y, mean, inverse = torch.empty_like(x), *_statistics(x)
    eight = eight_rows(x.shape, x.device)
    _launch(x, None, None, None, weight, bias, epsilon, x, y, mean, inverse, eight)
    return Normed(x, y, mean, inverse), eight


def add_norm_both(
    x: Tensor, branch: Tensor, keep: Tensor | None, weight: Tensor, bias: Tensor, epsilon: float
) -> tuple[Normed, EightRows]:
    total, y, mean, inverse = torch.empty_like(x), torch.empty_like(x), *_statistics(x)
    eight = eight_rows(x.shape, x.device)
    _launch(x, branch, keep, None, weight, bias, epsilon, total, y, mean, inverse, eight)
    return Normed(total, y, mean, inverse), eight


def norm_eight(
    x: Tensor, branch: Tensor | None, shift: Tensor, weight: Tensor, bias: Tensor, epsilon: float
) -> EightRows:
    eight = eight_rows(x.shape, x.device)
    _launch(x, branch, None, shift, weight, bias, epsilon, x, None, None, None, eight)
    return eight


def eight_rows(shape: Sequence[int], device: torch.device) -> EightRows:
    """Room for them."""
    scale = torch.empty(shape[0], 1, dtype=torch.float32, device=device)
    return EightRows(torch.empty(*shape, dtype=torch.float8_e4m3fn, device=device), scale)


def norm_backward(dy: Tensor, normed: Normed, weight: Tensor, skip: Tensor | None) -> NormGradients:
    dx, sums = _launch_backward(dy, normed, weight, skip, None, None, TWO)
    return NormGradients(dx, *sums)


def between_backward(
    dy: Tensor,
    normed: Normed,
    weight: Tensor,
    skip: Tensor | None,
    keep_before: Tensor | None,
    keep_after: Tensor | None,
) -> BetweenGradients:
    dx, sums = _launch_backward(dy, normed, weight, skip, keep_before, keep_after, FOUR)
    return BetweenGradients(dx, *sums)


def _launch_backward(
    dy: Tensor,
    normed: Normed,
    weight: Tensor,
    skip: Tensor | None,
    keep_before: Tensor | None,
    keep_after: Tensor | None,
    shape: Backward,
) -> tuple[Tensor, tuple[Tensor, ...]]:
    rows, width = dy.shape
    assert all(each.is_contiguous() for each in (dy, normed.total) + (() if skip is None else (skip,)))
    tall, warps = _tall(width, shape.numbers), _warps(width, shape.numbers)
    count = min(triton.cdiv(rows, tall), programs(dy.device, max(1, shape.warps // warps)))
    keeps = [keep for keep in (keep_before, keep_after) if keep is not None]
    dx = torch.empty_like(dy)
    parts = torch.empty(count, shape.sums, width, dtype=torch.float32, device=dy.device)
    _backward[(count,)](
        dy, normed.total, skip, normed.mean, normed.inverse, weight, keep_before, keep_after, dx, parts,
        rows, rows // keeps[0].shape[0] if keeps else 1, width,
        SKIP=skip is not None, BETWEEN=shape.sums == FOUR.sums,
        BEFORE=keep_before is not None, AFTER=keep_after is not None,
        ROWS=tall, BLOCK=block(width), STAGES=3,
        num_warps=warps, maxnreg=shape.registers,
    )  # fmt: skip
    return dx, summed(parts).unbind(0)


def _launch(
    x: Tensor,
    branch: Tensor | None,
    keep: Tensor | None,
    shift: Tensor | None,
    weight: Tensor,
    bias: Tensor,
    epsilon: float,
    total: Tensor,
    y: Tensor | None,
    mean: Tensor | None,
    inverse: Tensor | None,
    eight: EightRows | None,
) -> None:
    rows, width = x.shape
    assert x.is_contiguous()
    assert branch is None or branch.is_contiguous()
    tall = _tall(width, WIDE) * (1 if eight is None else 2)
    rounded, scale = (None, None) if eight is None else eight
    _forward[(triton.cdiv(rows, tall),)](
        x, branch, keep, shift, weight, bias, total, y, mean, inverse, rounded, scale,
        rows, 1 if keep is None else rows // keep.shape[0], width, epsilon,
        BRANCH=branch is not None, KEEP=keep is not None, SHIFT=shift is not None,
        NORMED=y is not None, EIGHT=eight is not None,
        ROWS=tall, BLOCK=block(width), num_warps=(1 if eight is None else 2) * _warps(width, WIDE),
    )  # fmt: skip


def _statistics(x: Tensor) -> tuple[Tensor, Tensor]:
    mean, inverse = torch.empty(2, x.shape[0], dtype=torch.float32, device=x.device).unbind(0)
    return mean, inverse


def _warps(width: int, each: int) -> int:
    return max(1, min(16, block(width) // each))


def _tall(width: int, each: int) -> int:
    """Rows of a tile: one, or of narrow rows as many as a warp holds."""
    return max(1, each // block(width))
