"""Attention of short sequences: one program does a head of a picture, straight from q, k and v side by side and back.

All keys and values of a head lie in shared memory, so no sum is rescaled on the way. Tokens lie in blocks of 64, and a
few left over in one of 16: 197 = 3 · 64 + 5, and a fourth whole block for five of them would cost a quarter more.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from patchwords.speed.kernels.short import Attended, ShortGradients

BASE = tl.constexpr(1.4426950408889634)  # exp(x) is 2 to the power of BASE · x
LANES = tl.constexpr(16)  # the least that a product sums over
BLOCK = 64
TAIL = 16  # the least width of a product
KEYS = 128  # of a block upright in the backward: 64 for each of two groups of four warps


@triton.jit
def _rows(at, first, tokens, SIZE: tl.constexpr, STRIDE: tl.constexpr, WIDTH: tl.constexpr):
    """`SIZE` rows of a head from the `first` on; those beyond the last token are zeros."""
    row = first + tl.arange(0, SIZE)
    place = row[:, None] * STRIDE + tl.arange(0, WIDTH)[None, :]
    return tl.load(at + place, mask=row[:, None] < tokens, other=0.0)


@triton.jit
def _part(
    at, NUMBER: tl.constexpr, TOKENS: tl.constexpr, BLOCKS: tl.constexpr, BLOCK: tl.constexpr, TAIL: tl.constexpr,
    STRIDE: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """The rows of a block, or of the tail behind the blocks."""
    if (NUMBER + 1) * BLOCK <= TOKENS:
        place = (NUMBER * BLOCK + tl.arange(0, BLOCK))[:, None] * STRIDE + tl.arange(0, WIDTH)[None, :]
        return tl.load(at + place)
    return _rows(at, NUMBER * BLOCK, TOKENS, BLOCK if NUMBER < BLOCKS else TAIL, STRIDE, WIDTH)


@triton.jit
def _store(at, x, first, tokens, SIZE: tl.constexpr, STRIDE: tl.constexpr, WIDTH: tl.constexpr):
    row = first + tl.arange(0, SIZE)
    place = row[:, None] * STRIDE + tl.arange(0, WIDTH)[None, :]
    tl.store(at + place, x.to(at.dtype.element_ty), mask=row[:, None] < tokens)


@triton.jit
def _numbers(at, first, tokens, SIZE: tl.constexpr):
    """One number for each of `SIZE` tokens."""
    row = first + tl.arange(0, SIZE)
    return tl.load(at + row, mask=row < tokens, other=0.0)


@triton.jit
def _forward(
    qkv_at, out_at, total_at, scale,
    TOKENS: tl.constexpr, HEADS: tl.constexpr, WIDTH: tl.constexpr,
    BLOCKS: tl.constexpr, BLOCK: tl.constexpr, TAIL: tl.constexpr,
):  # fmt: skip
    """Block after block of queries; all logits of a block are made before the first weight, so no sum is rescaled."""
    image, head = (tl.program_id(0) // HEADS).to(tl.int64), tl.program_id(0) % HEADS
    ACROSS: tl.constexpr = HEADS * WIDTH
    q_at = qkv_at + image * (TOKENS * 3 * ACROSS) + head * WIDTH
    k_at, v_at = q_at + ACROSS, q_at + 2 * ACROSS
    out_at += image * (TOKENS * ACROSS) + head * WIDTH
    total_at += tl.program_id(0).to(tl.int64) * TOKENS
    PARTS: tl.constexpr = BLOCKS + (TAIL > 0)
    ks = ()
    vs = ()
    for j in tl.static_range(PARTS):
        ks = ks + (_part(k_at, j, TOKENS, BLOCKS, BLOCK, TAIL, 3 * ACROSS, WIDTH),)
        vs = vs + (_part(v_at, j, TOKENS, BLOCKS, BLOCK, TAIL, 3 * ACROSS, WIDTH),)
    for first in tl.range(0, TOKENS, BLOCK, num_stages=1):
        q = _rows(q_at, first, TOKENS, BLOCK, 3 * ACROSS, WIDTH)
        q = (q * scale).to(q.dtype)  # a power of two rounds nothing; and what was worked on stays in registers
        high = tl.full((BLOCK,), -float("inf"), dtype=tl.float32)
        logits = ()
        for j in tl.static_range(PARTS):
            key = j * BLOCK + tl.arange(0, BLOCK if j < BLOCKS else TAIL)
            each = tl.dot(q, tl.trans(ks[j]))
            if j == PARTS - 1:
                each = tl.where((key < TOKENS)[None, :], each, -float("inf"))
            high = tl.maximum(high, tl.max(each, 1))
            logits = logits + (each,)
        total = tl.zeros((BLOCK,), dtype=tl.float32)
        x = tl.zeros((BLOCK, WIDTH), dtype=tl.float32)
        for j in tl.static_range(PARTS):
            a = tl.exp2(logits[j] * BASE - (high * BASE)[:, None])
            total += tl.sum(a, 1)
            x = tl.dot(a.to(q.dtype), vs[j], x)
        _store(out_at, x / total[:, None], first, TOKENS, BLOCK, ACROSS, WIDTH)
        row = first + tl.arange(0, BLOCK)
        tl.store(total_at + row, high + tl.log(total), mask=row < TOKENS)


@triton.jit
def _less(x, KIND: tl.constexpr):
    """-x of each row as three numbers of a lower precision whose sum it is, and a one: (rows, lanes).

    A product with `_ones` takes x from all logits of a query, and costs no registers for numbers that lie across.
    """
    lane = tl.arange(0, LANES)[None, :]
    x = -x[:, None]
    first = x.to(KIND)
    second = (x - first.to(tl.float32)).to(KIND)
    third = (x - first.to(tl.float32) - second.to(tl.float32)).to(KIND)
    one = tl.where(lane == 3, 1.0, 0.0).to(KIND)
    return tl.where(lane == 0, first, tl.where(lane == 1, second, tl.where(lane == 2, third, one)))


@triton.jit
def _ones(inside, KIND: tl.constexpr):
    """What `_less` is multiplied with, (keys, lanes); keys beyond the last token come out so low that exp is zero."""
    lane = tl.arange(0, LANES)[None, :]
    return tl.where(lane < 3, 1.0, tl.where((lane == 3) & ~inside[:, None], -30000.0, 0.0)).to(KIND)


@triton.jit
def _turned(k, v, q, dx, less, less_delta, ones, power):
    """The weights of a block of queries and the gradient of its logits, (keys, queries)."""
    a = tl.exp2(tl.dot(k, tl.trans(q), tl.dot(ones, tl.trans(less))) * power)
    da = tl.dot(v, tl.trans(dx), tl.dot(ones, tl.trans(less_delta)))
    return a.to(k.dtype), (a * da).to(k.dtype)


@triton.jit
def _backward(
    grad_at, qkv_at, out_at, total_at, dqkv_at, sums_at, scale,
    TOKENS: tl.constexpr, HEADS: tl.constexpr, WIDTH: tl.constexpr,
    BLOCKS: tl.constexpr, BLOCK: tl.constexpr, TAIL: tl.constexpr, KEYS: tl.constexpr,
):  # fmt: skip
    """Block after block of keys with all queries, whose gradient stays in registers until the end."""
    image, head = (tl.program_id(0) // HEADS).to(tl.int64), tl.program_id(0) % HEADS
    ACROSS: tl.constexpr = HEADS * WIDTH
    q_at = qkv_at + image * (TOKENS * 3 * ACROSS) + head * WIDTH
    k_at, v_at = q_at + ACROSS, q_at + 2 * ACROSS
    dq_at = dqkv_at + image * (TOKENS * 3 * ACROSS) + head * WIDTH
    out_at += image * (TOKENS * ACROSS) + head * WIDTH
    grad_at += image * (TOKENS * ACROSS) + head * WIDTH
    total_at += tl.program_id(0).to(tl.int64) * TOKENS
    power = scale * BASE
    PARTS: tl.constexpr = BLOCKS + (TAIL > 0)
    KIND: tl.constexpr = qkv_at.dtype.element_ty
    qs = ()
    dxs = ()
    lesses = ()
    deltas = ()
    dqs = ()
    by_dx = tl.zeros((BLOCK, WIDTH), dtype=tl.float32)
    for i in tl.static_range(PARTS):
        dx = _part(grad_at, i, TOKENS, BLOCKS, BLOCK, TAIL, ACROSS, WIDTH)
        x = _part(out_at, i, TOKENS, BLOCKS, BLOCK, TAIL, ACROSS, WIDTH)
        deltas = deltas + (_less(tl.sum(x.to(tl.float32) * dx.to(tl.float32), 1), KIND),)
        total = _numbers(total_at, i * BLOCK, TOKENS, BLOCK if i < BLOCKS else TAIL)
        lesses = lesses + (_less(total / scale, KIND),)
        qs = qs + (_part(q_at, i, TOKENS, BLOCKS, BLOCK, TAIL, 3 * ACROSS, WIDTH),)
        dxs = dxs + (dx,)
        if i < BLOCKS:
            by_dx += dx.to(tl.float32)
        dqs = dqs + (tl.zeros((WIDTH, BLOCK if i < BLOCKS else TAIL), dtype=tl.float32),)
    from_dx = tl.sum(by_dx, 0)  # over rows, which needs barriers: after all that is loaded is on its way
    if TAIL:
        from_dx += tl.sum(dxs[BLOCKS].to(tl.float32), 0)
    for first in tl.range(0, TOKENS, KEYS, num_stages=1):
        k = _rows(k_at, first, TOKENS, KEYS, 3 * ACROSS, WIDTH)
        v = _rows(v_at, first, TOKENS, KEYS, 3 * ACROSS, WIDTH)
        ones = _ones(first + tl.arange(0, KEYS) < TOKENS, KIND)
        dk = tl.zeros((KEYS, WIDTH), dtype=tl.float32)
        dv = tl.zeros((KEYS, WIDTH), dtype=tl.float32)
        added = ()
        for i in tl.static_range(PARTS):
            a, dlogits = _turned(k, v, qs[i], dxs[i], lesses[i], deltas[i], ones, power)
            dv = tl.dot(a, dxs[i], dv)
            dk = tl.dot(dlogits, qs[i], dk)
            added = added + (tl.dot(tl.trans(k), dlogits, dqs[i]),)
        dqs = added
        _store(dq_at + ACROSS, dk * scale, first, TOKENS, KEYS, 3 * ACROSS, WIDTH)
        _store(dq_at + 2 * ACROSS, dv, first, TOKENS, KEYS, 3 * ACROSS, WIDTH)
    by_q = tl.zeros((WIDTH, BLOCK), dtype=tl.float32)
    for i in tl.static_range(PARTS):
        if i < BLOCKS:
            by_q += dqs[i]
        _store(dq_at, tl.trans(dqs[i] * scale), i * BLOCK, TOKENS, BLOCK if i < BLOCKS else TAIL, 3 * ACROSS, WIDTH)
    from_q = tl.sum(by_q, 1)
    if TAIL:
        from_q += tl.sum(dqs[BLOCKS], 1)
    # Weights of a query sum to one, so the sum of dv is that of the output's gradient, and that of dk is nothing.
    sums_at += image * (3 * ACROSS) + head * WIDTH + tl.arange(0, WIDTH)
    tl.store(sums_at, from_q * scale)
    tl.store(sums_at + ACROSS, tl.zeros((WIDTH,), dtype=tl.float32))
    tl.store(sums_at + 2 * ACROSS, from_dx)


def short(qkv: Tensor, heads: int) -> Attended:
    assert qkv.is_contiguous()
    batch, tokens, across = qkv.shape
    out = qkv.new_empty(batch, tokens, across // 3)
    total = torch.empty(batch, heads, tokens, dtype=torch.float32, device=qkv.device)
    constants = _constants(qkv, heads)
    _forward[(batch * heads,)](
        qkv, out, total, constants["WIDTH"] ** -0.5, **constants, num_warps=4, maxnreg=168
    )  # three programs on a multiprocessor
    return Attended(out, total)


def short_backward(grad: Tensor, qkv: Tensor, out: Tensor, total: Tensor, heads: int) -> ShortGradients:
    assert all(each.is_contiguous() for each in (grad, qkv, out, total))
    batch = qkv.shape[0]
    dqkv = torch.empty_like(qkv)
    sums = torch.empty(batch, qkv.shape[-1], dtype=torch.float32, device=qkv.device)
    constants = _constants(qkv, heads)
    _backward[(batch * heads,)](
        grad, qkv, out, total, dqkv, sums, constants["WIDTH"] ** -0.5, **constants, KEYS=KEYS, num_warps=8
    )
    return ShortGradients(dqkv, sums.sum(0))


def _constants(qkv: Tensor, heads: int) -> dict[str, int]:
    """Whole blocks, and one of 16 for a few tokens more; more than that make another whole one."""
    tokens, rest = qkv.shape[1], qkv.shape[1] % BLOCK
    return {
        "TOKENS": tokens, "HEADS": heads, "WIDTH": qkv.shape[2] // (3 * heads),
        "BLOCKS": tokens // BLOCK + (rest > TAIL), "BLOCK": BLOCK, "TAIL": TAIL if 0 < rest <= TAIL else 0,
    }  # fmt: skip
