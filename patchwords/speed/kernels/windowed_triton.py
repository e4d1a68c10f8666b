"""Attention within windows, which reads q, k and v where they lie in the map: nothing is cut, moved or copied."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from patchwords.layers import window as layers
from patchwords.ops import windows
from patchwords.speed.kernels.launch import block
from patchwords.speed.kernels.sums_triton import summed
from patchwords.speed.kernels.windowed import Grid, WindowGradients

BASE = tl.constexpr(1.4426950408889634)  # exp(x) is 2 to the power of BASE · x
APART = tl.constexpr(layers.APART)
PROGRAMS = 2048  # each goes on from window to window of one head, so that the bias and its gradient stay in registers


@triton.jit
def _places(window, token, ROWS: tl.constexpr, COLS: tl.constexpr, UP: tl.constexpr, LEFT: tl.constexpr,
            TALL: tl.constexpr, WIDE: tl.constexpr):  # fmt: skip
    """Where the picture of a window begins, where its tokens lie in that, and the part of the map they come from."""
    down: tl.constexpr = ROWS // TALL
    across: tl.constexpr = COLS // WIDE
    row = window // across % down * TALL + token // WIDE
    col = window % across * WIDE + token % WIDE
    region = (row >= ROWS - UP).to(tl.int32) * 2 + (col >= COLS - LEFT).to(tl.int32)
    place = (row + UP) % ROWS * COLS + (col + LEFT) % COLS
    return tl.cast(window // (down * across), tl.int64) * (ROWS * COLS), place, region


@triton.jit
def _bias(bias_at, head, token, TOKENS: tl.constexpr):
    """The bias of a head to base 2; what stands beyond the window is never looked at."""
    inside = token < TOKENS
    place = (head * TOKENS + token[:, None]) * TOKENS + token[None, :]
    bias = tl.load(bias_at + place, mask=inside[:, None] & inside[None, :], other=0.0).to(tl.float32)
    return tl.where(inside[None, :], bias, -float("inf")) * BASE


@triton.jit
def _logits(q, k, bias, region, scale, SHIFTED: tl.constexpr):
    logits = tl.dot(q, tl.trans(k)) * (scale * BASE) + bias
    if SHIFTED:
        logits = tl.where(region[:, None] == region[None, :], logits, logits + APART * BASE)
    return logits


@triton.jit
def _forward(
    qkv_at, bias_at, out_at, count, each, scale,
    ROWS: tl.constexpr, COLS: tl.constexpr, UP: tl.constexpr, LEFT: tl.constexpr, TALL: tl.constexpr,
    WIDE: tl.constexpr, HEADS: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    head, first = tl.program_id(0) % HEADS, tl.program_id(0) // HEADS * each
    token, channel = tl.arange(0, BLOCK), tl.arange(0, WIDTH)
    inside = (token < TALL * WIDE)[:, None]
    bias = _bias(bias_at, head, token, TALL * WIDE)
    for window in tl.range(first, tl.minimum(first + each, count), num_stages=STAGES):
        start, place, region = _places(window, token, ROWS, COLS, UP, LEFT, TALL, WIDE)
        source = qkv_at + start * (3 * HEADS * WIDTH) + ((place * (3 * HEADS) + head)[:, None] * WIDTH + channel)
        q = tl.load(source, mask=inside, other=0.0)
        k = tl.load(source + HEADS * WIDTH, mask=inside, other=0.0)
        v = tl.load(source + 2 * HEADS * WIDTH, mask=inside, other=0.0)
        logits = _logits(q, k, bias, region, scale, UP + LEFT > 0)
        a = tl.exp2(logits - tl.max(logits, 1)[:, None])
        x = tl.dot(a.to(v.dtype), v) / tl.sum(a, 1)[:, None]
        target = out_at + start * (HEADS * WIDTH) + ((place * HEADS + head)[:, None] * WIDTH + channel)
        tl.store(target, x.to(out_at.dtype.element_ty), mask=inside)


@triton.jit
def _backward(
    grad_at, qkv_at, bias_at, dqkv_at, sums_at, parts_at, count, each, scale,
    ROWS: tl.constexpr, COLS: tl.constexpr, UP: tl.constexpr, LEFT: tl.constexpr, TALL: tl.constexpr,
    WIDE: tl.constexpr, HEADS: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    head, group = tl.program_id(0) % HEADS, tl.program_id(0) // HEADS
    first = group * each
    token, channel = tl.arange(0, BLOCK), tl.arange(0, WIDTH)
    inside = (token < TALL * WIDE)[:, None]
    bias = _bias(bias_at, head, token, TALL * WIDE)
    dbias = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    by_q = tl.zeros((BLOCK, WIDTH), dtype=tl.float32)
    by_v = tl.zeros((BLOCK, WIDTH), dtype=tl.float32)
    for window in tl.range(first, tl.minimum(first + each, count), num_stages=STAGES):
        start, place, region = _places(window, token, ROWS, COLS, UP, LEFT, TALL, WIDE)
        far, near = start * (3 * HEADS * WIDTH), (place * (3 * HEADS) + head)[:, None] * WIDTH + channel
        q = tl.load(qkv_at + far + near, mask=inside, other=0.0)
        k = tl.load(qkv_at + far + near + HEADS * WIDTH, mask=inside, other=0.0)
        v = tl.load(qkv_at + far + near + 2 * HEADS * WIDTH, mask=inside, other=0.0)
        source = grad_at + start * (HEADS * WIDTH) + ((place * HEADS + head)[:, None] * WIDTH + channel)
        dx = tl.load(source, mask=inside, other=0.0)
        logits = _logits(q, k, bias, region, scale, UP + LEFT > 0)
        da = tl.dot(dx, tl.trans(v))
        a = tl.exp2(logits - tl.max(logits, 1)[:, None])
        a = a / tl.sum(a, 1)[:, None]
        dlogits = a * (da - tl.sum(a * da, 1)[:, None])
        dbias += dlogits
        scaled = (dlogits * scale).to(q.dtype)
        dq = tl.dot(scaled, k)
        dk = tl.dot(tl.trans(scaled), q)
        dv = tl.dot(tl.trans(a.to(dx.dtype)), dx)
        by_q += dq
        by_v += dv
        target = dqkv_at + far + near
        tl.store(target, dq.to(dqkv_at.dtype.element_ty), mask=inside)
        tl.store(target + HEADS * WIDTH, dk.to(dqkv_at.dtype.element_ty), mask=inside)
        tl.store(target + 2 * HEADS * WIDTH, dv.to(dqkv_at.dtype.element_ty), mask=inside)
    # Each row of softmax's gradient sums to nothing, and so do the gradients of all keys.
    target = sums_at + (group * 3 * HEADS + head) * WIDTH + channel
    tl.store(target, tl.sum(by_q, 0))
    tl.store(target + HEADS * WIDTH, tl.zeros((WIDTH,), dtype=tl.float32))
    tl.store(target + 2 * HEADS * WIDTH, tl.sum(by_v, 0))
    place = (tl.program_id(0) * (TALL * WIDE) + token[:, None]) * (TALL * WIDE) + token[None, :]
    tl.store(parts_at + place, dbias, mask=inside & (token < TALL * WIDE)[None, :])


def windowed(qkv: Tensor, bias: Tensor, window: Grid, shift: Grid) -> Tensor:
    assert qkv.is_contiguous()
    assert bias.is_contiguous()
    out = qkv.new_empty(*qkv.shape[:-1], qkv.shape[-1] // 3)
    count, each, groups = _shared(qkv, bias.shape[0], window)
    constants = _constants(qkv, bias, window, shift)
    _forward[(groups * bias.shape[0],)](
        qkv, bias, out, count, each, constants["WIDTH"] ** -0.5, **constants, STAGES=3, num_warps=4
    )
    return out


def windowed_backward(grad: Tensor, qkv: Tensor, bias: Tensor, window: Grid, shift: Grid) -> WindowGradients:
    assert all(each.is_contiguous() for each in (grad, qkv, bias))
    dqkv = torch.empty_like(qkv)
    count, each, groups = _shared(qkv, bias.shape[0], window)
    sums = torch.empty(groups, qkv.shape[-1], dtype=torch.float32, device=qkv.device)
    parts = torch.empty(groups, *bias.shape, dtype=torch.float32, device=qkv.device)
    constants = _constants(qkv, bias, window, shift)
    _backward[(groups * bias.shape[0],)](
        grad, qkv, bias, dqkv, sums, parts, count, each, constants["WIDTH"] ** -0.5, **constants, STAGES=2, num_warps=4
    )
    return WindowGradients(dqkv, summed(sums), summed(parts).to(bias.dtype))


def _shared(qkv: Tensor, heads: int, window: Grid) -> tuple[int, int, int]:
    """How many windows there are, how many of them a program does, and how many programs that makes for a head."""
    count = qkv.shape[:-1].numel() // (window[0] * window[1])
    each = triton.cdiv(count, max(1, PROGRAMS // heads))
    return count, each, triton.cdiv(count, each)


def _constants(qkv: Tensor, bias: Tensor, window: Grid, shift: Grid) -> dict[str, int]:
    rows, cols = qkv.shape[1], qkv.shape[2]
    up, left = windows.moved(shift, windows.counts((rows, cols), window))
    return {
        "ROWS": rows, "COLS": cols, "UP": up, "LEFT": left, "TALL": window[0], "WIDE": window[1],
        "HEADS": bias.shape[0], "WIDTH": qkv.shape[-1] // (3 * bias.shape[0]), "BLOCK": max(16, block(bias.shape[1])),
    }  # fmt: skip
