"""Attention of short sequences: one program does a head of a picture, straight from q, k and v side by side and back.

All keys and values of a head lie in shared memory, so no sum is rescaled on the way. Tokens lie in blocks of 64, and a
few left over in one of 16: 197 = 3 · 64 + 5, and a fourth whole block for five of them would cost a quarter more.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from patchwords.speed.kernels.short import LONELY, LONG, Attended, ShortGradients, to_be_filled, to_be_filled_eight
from patchwords.speed.kernels.sums_triton import summed

BASE = tl.constexpr(1.4426950408889634)  # exp(x) is 2 to the power of BASE · x
LANES = tl.constexpr(16)  # the least that a product sums over
BLOCK = 64
TAIL = 16  # the least width of a product


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
    qkv_at, out_at, total_at, factors_at, scale,
    TOKENS: tl.constexpr, HEADS: tl.constexpr, WIDTH: tl.constexpr,
    BLOCKS: tl.constexpr, BLOCK: tl.constexpr, TAIL: tl.constexpr, EIGHT: tl.constexpr,
):  # fmt: skip
    """Block after block of queries; all logits of a block are made before the first weight, so no sum is rescaled.

    The programs of a head share its blocks.
    """
    image, head = (tl.program_id(0) // HEADS).to(tl.int64), tl.program_id(0) % HEADS
    ACROSS: tl.constexpr = HEADS * WIDTH
    q_at = qkv_at + image * (TOKENS * 3 * ACROSS) + head * WIDTH
    k_at, v_at = q_at + ACROSS, q_at + 2 * ACROSS
    out_at += image * (TOKENS * ACROSS) + head * WIDTH
    if not EIGHT:
        total_at += tl.program_id(0).to(tl.int64) * TOKENS
    PARTS: tl.constexpr = BLOCKS + (TAIL > 0)
    ks = ()
    vs = ()
    for j in tl.static_range(PARTS):
        ks = ks + (_part(k_at, j, TOKENS, BLOCKS, BLOCK, TAIL, 3 * ACROSS, WIDTH),)
        vs = vs + (_part(v_at, j, TOKENS, BLOCKS, BLOCK, TAIL, 3 * ACROSS, WIDTH),)
    begin, step = tl.program_id(1) * BLOCK, tl.num_programs(1) * BLOCK
    coming = _rows(q_at, begin, TOKENS, BLOCK, 3 * ACROSS, WIDTH)
    for first in tl.range(begin, TOKENS, step, num_stages=1):
        q = (coming * scale).to(coming.dtype)  # a power of two rounds nothing; what was worked on stays in registers
        coming = _rows(q_at, first + step, TOKENS, BLOCK, 3 * ACROSS, WIDTH)  # on their way meanwhile
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
        x /= total[:, None]
        if EIGHT:
            x *= tl.load(factors_at + head * WIDTH + tl.arange(0, WIDTH))[None, :]
        else:  # for the way back
            row = first + tl.arange(0, BLOCK)
            tl.store(total_at + row, high + tl.log(total), mask=row < TOKENS)
        _store(out_at, x, first, TOKENS, BLOCK, ACROSS, WIDTH)


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
def _backward_keys(
    grad_at, qkv_at, out_at, total_at, delta_at, dqkv_at, sums_at, scale,
    TOKENS: tl.constexpr, HEADS: tl.constexpr, WIDTH: tl.constexpr,
    BLOCKS: tl.constexpr, BLOCK: tl.constexpr, TAIL: tl.constexpr,
):  # fmt: skip
    """Block after block of keys with all queries; what the other half of the way back needs of each query besides.

    Every product takes the weights from the registers that they were made in, which is why they are made once more for
    the gradients of the queries: these would otherwise wait in registers for their end.
    """
    image, head = (tl.program_id(0) // HEADS).to(tl.int64), tl.program_id(0) % HEADS
    ACROSS: tl.constexpr = HEADS * WIDTH
    q_at = qkv_at + image * (TOKENS * 3 * ACROSS) + head * WIDTH
    k_at, v_at = q_at + ACROSS, q_at + 2 * ACROSS
    dk_at = dqkv_at + image * (TOKENS * 3 * ACROSS) + head * WIDTH + ACROSS
    out_at += image * (TOKENS * ACROSS) + head * WIDTH
    grad_at += image * (TOKENS * ACROSS) + head * WIDTH
    total_at += tl.program_id(0).to(tl.int64) * TOKENS
    delta_at += tl.program_id(0).to(tl.int64) * TOKENS
    sums_at += image * (3 * ACROSS) + head * WIDTH + tl.arange(0, WIDTH)
    power = scale * BASE
    PARTS: tl.constexpr = BLOCKS + (TAIL > 0)
    KIND: tl.constexpr = qkv_at.dtype.element_ty
    qs = ()
    dxs = ()
    totals = ()
    deltas = ()
    by_dx = tl.zeros((BLOCK, WIDTH), dtype=tl.float32)
    for i in tl.static_range(PARTS):
        dx = _part(grad_at, i, TOKENS, BLOCKS, BLOCK, TAIL, ACROSS, WIDTH)
        x = _part(out_at, i, TOKENS, BLOCKS, BLOCK, TAIL, ACROSS, WIDTH)
        row = i * BLOCK + tl.arange(0, BLOCK if i < BLOCKS else TAIL)
        delta = tl.sum(x.to(tl.float32) * dx.to(tl.float32), 1)
        tl.store(delta_at + row, delta, mask=row < TOKENS)
        deltas = deltas + (_less(delta, KIND),)
        total = _numbers(total_at, i * BLOCK, TOKENS, BLOCK if i < BLOCKS else TAIL)
        totals = totals + (_less(total / scale, KIND),)
        qs = qs + (_part(q_at, i, TOKENS, BLOCKS, BLOCK, TAIL, 3 * ACROSS, WIDTH),)
        dxs = dxs + (dx,)
        if i < BLOCKS:
            by_dx += dx.to(tl.float32)
    from_dx = tl.sum(by_dx, 0)  # over rows, which needs barriers: after all that is loaded is on its way
    if TAIL:
        from_dx += tl.sum(dxs[BLOCKS].to(tl.float32), 0)
    # Weights of a query sum to one, so the sum of dv is that of the output's gradient, and that of dk is nothing.
    tl.store(sums_at + ACROSS, tl.zeros((WIDTH,), dtype=tl.float32))
    tl.store(sums_at + 2 * ACROSS, from_dx)
    for first in tl.range(0, TOKENS, BLOCK, num_stages=2):  # more would leave no room for another program
        k = _rows(k_at, first, TOKENS, BLOCK, 3 * ACROSS, WIDTH)
        v = _rows(v_at, first, TOKENS, BLOCK, 3 * ACROSS, WIDTH)
        ones = _ones(first + tl.arange(0, BLOCK) < TOKENS, KIND)
        dk = tl.zeros((BLOCK, WIDTH), dtype=tl.float32)
        dv = tl.zeros((BLOCK, WIDTH), dtype=tl.float32)
        for i in tl.static_range(PARTS):  # (keys, queries)
            a = tl.exp2(tl.dot(k, tl.trans(qs[i]), tl.dot(ones, tl.trans(totals[i]))) * power)
            da = tl.dot(v, tl.trans(dxs[i]), tl.dot(ones, tl.trans(deltas[i])))
            dv = tl.dot(a.to(KIND), dxs[i], dv)
            dk = tl.dot((a * da).to(KIND), qs[i], dk)
        _store(dk_at, dk * scale, first, TOKENS, BLOCK, 3 * ACROSS, WIDTH)
        _store(dk_at + ACROSS, dv, first, TOKENS, BLOCK, 3 * ACROSS, WIDTH)


@triton.jit
def _backward_queries(
    grad_at, qkv_at, total_at, delta_at, dqkv_at, sums_at, scale,
    TOKENS: tl.constexpr, HEADS: tl.constexpr, WIDTH: tl.constexpr,
    BLOCKS: tl.constexpr, BLOCK: tl.constexpr, TAIL: tl.constexpr,
):  # fmt: skip
    """Block after block of queries with all keys."""
    image, head = (tl.program_id(0) // HEADS).to(tl.int64), tl.program_id(0) % HEADS
    ACROSS: tl.constexpr = HEADS * WIDTH
    q_at = qkv_at + image * (TOKENS * 3 * ACROSS) + head * WIDTH
    k_at, v_at = q_at + ACROSS, q_at + 2 * ACROSS
    dq_at = dqkv_at + image * (TOKENS * 3 * ACROSS) + head * WIDTH
    grad_at += image * (TOKENS * ACROSS) + head * WIDTH
    total_at += tl.program_id(0).to(tl.int64) * TOKENS
    delta_at += tl.program_id(0).to(tl.int64) * TOKENS
    power = scale * BASE
    PARTS: tl.constexpr = BLOCKS + (TAIL > 0)
    KIND: tl.constexpr = qkv_at.dtype.element_ty
    ks = ()
    vs = ()
    for j in tl.static_range(PARTS):
        ks = ks + (_part(k_at, j, TOKENS, BLOCKS, BLOCK, TAIL, 3 * ACROSS, WIDTH),)
        vs = vs + (_part(v_at, j, TOKENS, BLOCKS, BLOCK, TAIL, 3 * ACROSS, WIDTH),)
    by_q = tl.zeros((WIDTH,), dtype=tl.float32)
    for first in tl.range(0, TOKENS, BLOCK, num_stages=1):
        q = _rows(q_at, first, TOKENS, BLOCK, 3 * ACROSS, WIDTH)
        dx = _rows(grad_at, first, TOKENS, BLOCK, ACROSS, WIDTH)
        less = _numbers(delta_at, first, TOKENS, BLOCK)[:, None]
        divided = (_numbers(total_at, first, TOKENS, BLOCK) * BASE)[:, None]
        dq = tl.zeros((BLOCK, WIDTH), dtype=tl.float32)
        for j in tl.static_range(PARTS):  # (queries, keys)
            logits = tl.dot(q, tl.trans(ks[j])) * power - divided
            if j == PARTS - 1:
                key = j * BLOCK + tl.arange(0, BLOCK if j < BLOCKS else TAIL)
                logits = tl.where((key < TOKENS)[None, :], logits, -float("inf"))
            slope = tl.dot(dx, tl.trans(vs[j])) - less
            dq = tl.dot((tl.exp2(logits) * slope).to(KIND), ks[j], dq)
        dq *= scale
        by_q += tl.sum(dq, 0)  # at once: all rows of all blocks would take a fifth of the registers
        _store(dq_at, dq, first, TOKENS, BLOCK, 3 * ACROSS, WIDTH)
    tl.store(sums_at + image * (3 * ACROSS) + head * WIDTH + tl.arange(0, WIDTH), by_q)


def short(qkv: Tensor, heads: int) -> Attended:
    made = to_be_filled(qkv, heads)
    _launch_forward(qkv, heads, *made, None)
    return made


def short_eight(qkv: Tensor, heads: int, factors: Tensor) -> Tensor:
    made = to_be_filled_eight(qkv)
    _launch_forward(qkv, heads, made, None, factors)
    return made


def _launch_forward(qkv: Tensor, heads: int, out: Tensor, total: Tensor | None, factors: Tensor | None) -> None:
    assert qkv.is_contiguous()
    batch, tokens, _ = qkv.shape
    constants = _constants(qkv, heads)
    shares = triton.cdiv(tokens, BLOCK) if batch * heads <= LONELY else 1
    _forward[(batch * heads, shares)](
        qkv, out, total, factors, constants["WIDTH"] ** -0.5, **constants, EIGHT=factors is not None, num_warps=4,
        maxnreg=168 if shares == 1 else None,  # of many programs there are three on a multiprocessor
    )  # fmt: skip


def short_backward(grad: Tensor, qkv: Tensor, out: Tensor, total: Tensor, heads: int) -> ShortGradients:
    assert all(each.is_contiguous() for each in (grad, qkv, out, total))
    batch = qkv.shape[0]
    dqkv = torch.empty_like(qkv)
    sums = torch.empty(batch, qkv.shape[-1], dtype=torch.float32, device=qkv.device)
    constants = _constants(qkv, heads)
    delta, scale = torch.empty_like(total), constants["WIDTH"] ** -0.5
    _backward_keys[(batch * heads,)](grad, qkv, out, total, delta, dqkv, sums, scale, **constants, num_warps=4)
    _backward_queries[(batch * heads,)](
        grad, qkv, total, delta, dqkv, sums, scale, **constants, num_warps=4,
        maxnreg=168 if qkv.shape[1] <= LONG else None,  # three programs on a multiprocessor
    )  # fmt: skip
    return ShortGradients(dqkv, summed(sums))


def _constants(qkv: Tensor, heads: int) -> dict[str, int]:
    """Whole blocks, and one of 16 for a few tokens more; more than that make another whole one."""
    tokens, rest = qkv.shape[1], qkv.shape[1] % BLOCK
    return {
        "TOKENS": tokens, "HEADS": heads, "WIDTH": qkv.shape[2] // (3 * heads),
        "BLOCKS": tokens // BLOCK + (rest > TAIL), "BLOCK": BLOCK, "TAIL": TAIL if 0 < rest <= TAIL else 0,
    }  # fmt: skip
