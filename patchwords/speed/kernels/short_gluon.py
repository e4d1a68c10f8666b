"""Attention of short sequences on a Hopper, in Gluon: products are on their way while weights are made of others.

One program does a head of a picture, whose tokens lie in its shared memory in blocks of 64, and a few left over in one
of 16. Forward three programs share a multiprocessor; on the way back two, which need queries, keys, values and the
gradient of the output at hand: one's products go on while another makes weights. What a block of queries gets is made
of all keys, and then what a block of keys gets of all queries. So the weights are made twice, each time in registers
that the products take them from; a sum for all queries beside that for all keys would find no room.

Every block begins its round with another one, so that nothing of a round is the same in the next: else the compiler
would put registers aside to keep it all.
"""

import torch
from torch import Tensor
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    async_copy,
    fence_async_shared,
    warpgroup_mma,
    warpgroup_mma_wait,
)

from patchwords.speed.kernels.short import Attended, ShortGradients, to_be_filled, to_be_filled_eight
from patchwords.speed.kernels.sums_triton import summed

BASE = gl.constexpr(1.4426950408889634)  # exp(x) is 2 to the power of BASE · x
BLOCK = gl.constexpr(64)
TAIL = gl.constexpr(16)
WIDTH = gl.constexpr(64)
HALF = gl.constexpr(32)

TILES = gl.constexpr(gl.NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=16, rank=2))
HALF_TILES = gl.constexpr(gl.NVMMASharedLayout(swizzle_byte_width=64, element_bitwidth=16, rank=2))
EIGHT_TILES = gl.constexpr(gl.NVMMASharedLayout(swizzle_byte_width=64, element_bitwidth=8, rank=2))
LINES = gl.constexpr(gl.SwizzledSharedLayout(1, 1, 1, [0]))
ROWS = gl.constexpr(gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0]))  # as global memory is read and written
HALF_ROWS = gl.constexpr(gl.BlockedLayout([1, 8], [8, 4], [4, 1], [1, 0]))
FLAT = gl.constexpr(gl.BlockedLayout([1], [32], [4], [0]))
MADE = gl.constexpr(gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16]))  # what a product makes
LEFT = gl.constexpr(gl.DotOperandLayout(0, MADE, 2))  # and takes from registers

# Triton 3.7 and 3.8 gave these their names of today.
_meet = getattr(gl, "barrier", None) or gl.thread_barrier
_load_ahead = getattr(async_copy, "async_load", None) or async_copy.async_copy_global_to_shared


@gluon.constexpr_function
def _size(number, blocks):
    """The tokens of a block, or of the tail behind the blocks."""
    return 64 if number < blocks else 16


@gluon.constexpr_function
def _made(across):
    """What a product with so many columns makes."""
    return gl.NVMMADistributedLayout([3, 0], [4, 1], [16, across, 16])


@gluon.jit
def _turn(blocks, tail, number, i: gl.constexpr, BLOCKS: gl.constexpr):
    """The part that block `number` looks at as its i-th: the blocks in turn from itself on, and the tail."""
    if i < BLOCKS:
        return blocks.index((number + i) % BLOCKS)
    else:
        return tail


@gluon.jit
def _place(first, SIZE: gl.constexpr, STRIDE: gl.constexpr, TOKENS: gl.constexpr):
    """Where rows of a head lie, and which of them are tokens."""
    row = first + gl.arange(0, SIZE, gl.SliceLayout(1, ROWS))
    col = gl.arange(0, WIDTH, gl.SliceLayout(0, ROWS))
    return row[:, None] * STRIDE + col[None, :], (row < TOKENS)[:, None]


@gluon.jit
def _ask_for(blocks, tail, at, BLOCKS: gl.constexpr, MORE: gl.constexpr, STRIDE: gl.constexpr, TOKENS: gl.constexpr):
    for i in gl.static_range(BLOCKS + MORE):
        place, inside = _place(i * BLOCK, _size(i, BLOCKS), STRIDE, TOKENS)
        _load_ahead(_turn(blocks, tail, 0, i, BLOCKS), at + place, inside)


@gluon.jit
def _left(at, number, STRIDE: gl.constexpr, TOKENS: gl.constexpr):
    """A block from where it lies, as the left side of products, with zeros behind the last token."""
    row = number * BLOCK + gl.arange(0, BLOCK, gl.SliceLayout(1, LEFT))
    col = gl.arange(0, WIDTH, gl.SliceLayout(0, LEFT))
    return gl.load(at + (row[:, None] * STRIDE + col[None, :]), mask=(row < TOKENS)[:, None], other=0.0)


@gluon.jit
def _left_of(
    blocks, at, number, BLOCKS: gl.constexpr, MORE: gl.constexpr, STRIDE: gl.constexpr, TOKENS: gl.constexpr
):  # fmt: skip
    """The same from shared memory, where a whole block lies there; the tail is brought again."""
    if MORE:
        if number < BLOCKS:
            x = blocks.index(number).load(LEFT)
        else:
            x = _left(at, BLOCKS, STRIDE, TOKENS)
    else:
        x = blocks.index(number).load(LEFT)
    return x


@gluon.jit
def _times(a, b, SIZE: gl.constexpr):
    """a (64, 64) times b (SIZE, 64) the other way round, on its way."""
    nothing = gl.zeros([BLOCK, SIZE], gl.float32, _made(SIZE))
    return warpgroup_mma(a, b.permute((1, 0)), nothing, use_acc=False, is_async=True)


@gluon.jit
def _across(lines, number, i: gl.constexpr, BLOCKS: gl.constexpr):
    """Numbers of the tokens that lie across, as `_turn` chooses them."""
    if i < BLOCKS:
        return lines.index((number + i) % BLOCKS).load(gl.SliceLayout(0, MADE))[None, :]
    else:
        return lines.index(i).slice(0, TAIL).load(gl.SliceLayout(0, _made(TAIL)))[None, :]


@gluon.jit
def _inside(number, i: gl.constexpr, BLOCKS: gl.constexpr, TOKENS: gl.constexpr):
    """Which of those that lie across are tokens."""
    first = (number + i) % BLOCKS * BLOCK if i < BLOCKS else i * BLOCK
    token = first + gl.arange(0, _size(i, BLOCKS), gl.SliceLayout(0, _made(_size(i, BLOCKS))))
    return (token < TOKENS)[None, :]


@gluon.jit
def _down(lines, number, SIZE: gl.constexpr):
    """Numbers of the tokens of a block, beside products of SIZE columns."""
    return lines.index(number).load(gl.SliceLayout(1, _made(SIZE)))[:, None]


@gluon.jit
def _forward(
    qkv_at, out_at, total_at, factors_at, scale,
    TOKENS: gl.constexpr, HEADS: gl.constexpr, BLOCKS: gl.constexpr, MORE: gl.constexpr, EIGHT: gl.constexpr,
):  # fmt: skip
    """Block after block of queries; all logits of a block are made before the first weight, so no sum is rescaled."""
    KIND: gl.constexpr = qkv_at.dtype.element_ty
    ACROSS: gl.constexpr = HEADS * WIDTH
    PARTS: gl.constexpr = BLOCKS + MORE
    image, head = (gl.program_id(0) // HEADS).to(gl.int64), gl.program_id(0) % HEADS
    q_at = qkv_at + image * (TOKENS * 3 * ACROSS) + head * WIDTH
    out_at += image * (TOKENS * ACROSS) + head * WIDTH
    if not EIGHT:
        total_at += gl.program_id(0).to(gl.int64) * TOKENS
    power = scale * BASE

    ks = gl.allocate_shared_memory(KIND, [BLOCKS, BLOCK, WIDTH], TILES)
    vs = gl.allocate_shared_memory(KIND, [BLOCKS, BLOCK, WIDTH], TILES)
    k_tail, v_tail = ks, vs
    if MORE:
        k_tail = gl.allocate_shared_memory(KIND, [TAIL, WIDTH], TILES)
        v_tail = gl.allocate_shared_memory(KIND, [TAIL, WIDTH], TILES)
    if EIGHT:
        by = gl.allocate_shared_memory(gl.float8e4nv, [BLOCK, WIDTH], EIGHT_TILES)
    else:
        by = gl.allocate_shared_memory(KIND, [BLOCK, WIDTH], TILES)
    _ask_for(ks, k_tail, q_at + ACROSS, BLOCKS, MORE, 3 * ACROSS, TOKENS)
    _ask_for(vs, v_tail, q_at + 2 * ACROSS, BLOCKS, MORE, 3 * ACROSS, TOKENS)
    async_copy.commit_group()
    coming = _left(q_at, 0, 3 * ACROSS, TOKENS)
    async_copy.wait_group(0)
    fence_async_shared()
    _meet()

    for number in range(0, PARTS):
        q = coming
        asked = ()
        for j in gl.static_range(PARTS):
            asked = asked + (_times(q, _turn(ks, k_tail, number, j, BLOCKS), _size(j, BLOCKS)),)
        high = gl.full([BLOCK], -float("inf"), gl.float32, gl.SliceLayout(1, MADE))
        logits = ()
        for j in gl.static_range(PARTS):
            each, q = warpgroup_mma_wait(PARTS - 1 - j, [asked[j], q])
            if j == BLOCKS or (MORE == 0 and TOKENS % BLOCK != 0):
                each = gl.where(_inside(number, j, BLOCKS, TOKENS), each, -float("inf"))
            logits = logits + (each,)
            high = gl.maximum(high, gl.convert_layout(gl.max(each, 1), gl.SliceLayout(1, MADE)))
        total = gl.zeros([BLOCK], gl.float32, gl.SliceLayout(1, MADE))
        x = gl.zeros([BLOCK, WIDTH], gl.float32, MADE)
        weights = ()
        for j in gl.static_range(PARTS):
            less = gl.convert_layout(high * power, gl.SliceLayout(1, _made(_size(j, BLOCKS))))
            a = gl.exp2(logits[j] * power - less[:, None])
            total += gl.convert_layout(gl.sum(a, 1), gl.SliceLayout(1, MADE))
            weights = weights + (gl.convert_layout(a.to(KIND), LEFT),)
            x = warpgroup_mma(weights[j], _turn(vs, v_tail, number, j, BLOCKS), x, is_async=True)
        coming = _left(q_at, number + 1, 3 * ACROSS, TOKENS)  # on their way meanwhile
        for j in gl.static_range(PARTS):  # what a product takes from registers stays there until it is over
            x, _ = warpgroup_mma_wait(0, [x, weights[j]])
        x /= total[:, None]
        if EIGHT:
            x *= gl.load(factors_at + head * WIDTH + gl.arange(0, WIDTH, gl.SliceLayout(0, MADE)))[None, :]
        else:  # for the way back
            row = number * BLOCK + gl.arange(0, BLOCK, gl.SliceLayout(1, MADE))
            gl.store(total_at + row, high * scale + gl.log(total), mask=row < TOKENS)
        _keep(out_at, x, by, number * BLOCK, ACROSS, TOKENS)


@gluon.jit
def _of_queries(
    q, g, ks, vs, k_tail, v_tail, totals, deltas, number, power,
    TOKENS: gl.constexpr, BLOCKS: gl.constexpr, MORE: gl.constexpr,
):  # fmt: skip
    """The gradient of a block of queries, made of all keys."""
    PARTS: gl.constexpr = BLOCKS + MORE
    dq = gl.zeros([BLOCK, WIDTH], gl.float32, MADE)
    d = q  # what the round before has made; the first has none
    logits = _times(q, _turn(ks, k_tail, number, 0, BLOCKS), _size(0, BLOCKS))
    slope = _times(g, _turn(vs, v_tail, number, 0, BLOCKS), _size(0, BLOCKS))
    for j in gl.static_range(PARTS):  # (queries, keys)
        logits = warpgroup_mma_wait(1 if j == 0 else 2, [logits])
        a = gl.exp2(logits * power - _down(totals, number, _size(j, BLOCKS)))
        if j == BLOCKS or (MORE == 0 and TOKENS % BLOCK != 0):
            a = gl.where(_inside(number, j, BLOCKS, TOKENS), a, 0.0)
        if j + 1 < PARTS:
            logits = _times(q, _turn(ks, k_tail, number, j + 1, BLOCKS), _size(j + 1, BLOCKS))
        if j == 0:
            slope = warpgroup_mma_wait(1 if j + 1 < PARTS else 0, [slope])
        else:
            slope, d = warpgroup_mma_wait(1 if j + 1 < PARTS else 0, [slope, d])
        d = gl.convert_layout((a * (slope - _down(deltas, number, _size(j, BLOCKS)))).to(q.dtype), LEFT)
        if j + 1 < PARTS:
            slope = _times(g, _turn(vs, v_tail, number, j + 1, BLOCKS), _size(j + 1, BLOCKS))
        dq = warpgroup_mma(d, _turn(ks, k_tail, number, j, BLOCKS), dq, is_async=True)
    dq, d, q, g = warpgroup_mma_wait(0, [dq, d, q, g])
    return dq


@gluon.jit
def _of_keys(
    k, v, qs, gs, q_tail, g_tail, totals, deltas, number, power, BLOCKS: gl.constexpr, MORE: gl.constexpr
):  # fmt: skip
    """The gradients of a block of keys and of its values, made of all queries."""
    PARTS: gl.constexpr = BLOCKS + MORE
    dk = gl.zeros([BLOCK, WIDTH], gl.float32, MADE)
    dv = gl.zeros([BLOCK, WIDTH], gl.float32, MADE)
    before, d = k, k
    logits = _times(k, _turn(qs, q_tail, number, 0, BLOCKS), _size(0, BLOCKS))
    slope = _times(v, _turn(gs, g_tail, number, 0, BLOCKS), _size(0, BLOCKS))
    for i in gl.static_range(PARTS):  # (keys, queries)
        total = _across(totals, number, i, BLOCKS)
        logits = warpgroup_mma_wait(1 if i == 0 else 2, [logits])
        a = gl.exp2(logits * power - total)
        weights = gl.convert_layout(a.to(k.dtype), LEFT)
        dv = warpgroup_mma(weights, _turn(gs, g_tail, number, i, BLOCKS), dv, is_async=True)
        if i == 0:
            slope = warpgroup_mma_wait(1, [slope])
        else:
            slope, before, d = warpgroup_mma_wait(1, [slope, before, d])
        before = weights
        d = gl.convert_layout((a * (slope - _across(deltas, number, i, BLOCKS))).to(k.dtype), LEFT)
        if i + 1 < PARTS:
            logits = _times(k, _turn(qs, q_tail, number, i + 1, BLOCKS), _size(i + 1, BLOCKS))
            slope = _times(v, _turn(gs, g_tail, number, i + 1, BLOCKS), _size(i + 1, BLOCKS))
        dk = warpgroup_mma(d, _turn(qs, q_tail, number, i, BLOCKS), dk, is_async=True)
    dk, dv, before, d, k, v = warpgroup_mma_wait(0, [dk, dv, before, d, k, v])
    return dk, dv


@gluon.jit
def _keep(at, x, by, first, STRIDE: gl.constexpr, TOKENS: gl.constexpr):
    """By way of shared memory, so that whole rows are written."""
    by.store(x.to(by.dtype))
    place, inside = _place(first, BLOCK, STRIDE, TOKENS)
    gl.store(at + place, by.load(ROWS), mask=inside)


@gluon.jit
def _keep_half(at, x, by, first, STRIDE: gl.constexpr, TOKENS: gl.constexpr):
    """The same for half of the columns, and the sums of each row with the one half a block below it."""
    by.store(x)
    x = by.load(HALF_ROWS)
    row = first + gl.arange(0, BLOCK, gl.SliceLayout(1, HALF_ROWS))
    col = gl.arange(0, HALF, gl.SliceLayout(0, HALF_ROWS))
    inside = (row < TOKENS)[:, None]
    gl.store(at + (row[:, None] * STRIDE + col[None, :]), x, mask=inside)
    pairs = gl.reshape(gl.where(inside, x.to(gl.float32), 0.0), [2, BLOCK // 2, HALF])
    return gl.convert_layout(gl.sum(pairs, 0), HALF_ROWS)


@gluon.jit
def _backward(
    grad_at, qkv_at, out_at, total_at, dqkv_at, sums_at, scale,
    TOKENS: gl.constexpr, HEADS: gl.constexpr, BLOCKS: gl.constexpr, MORE: gl.constexpr,
):  # fmt: skip
    """Blocks, and one tail `MORE` or none."""
    KIND: gl.constexpr = qkv_at.dtype.element_ty
    ACROSS: gl.constexpr = HEADS * WIDTH
    PARTS: gl.constexpr = BLOCKS + MORE
    image, head = (gl.program_id(0) // HEADS).to(gl.int64), gl.program_id(0) % HEADS
    q_at = qkv_at + image * (TOKENS * 3 * ACROSS) + head * WIDTH
    dq_at = dqkv_at + image * (TOKENS * 3 * ACROSS) + head * WIDTH
    out_at += image * (TOKENS * ACROSS) + head * WIDTH
    grad_at += image * (TOKENS * ACROSS) + head * WIDTH
    total_at += gl.program_id(0).to(gl.int64) * TOKENS
    sums_at += image * (3 * ACROSS) + head * WIDTH
    power = scale * BASE

    qs = gl.allocate_shared_memory(KIND, [BLOCKS, BLOCK, WIDTH], TILES)
    gs = gl.allocate_shared_memory(KIND, [BLOCKS, BLOCK, WIDTH], TILES)
    ks = gl.allocate_shared_memory(KIND, [BLOCKS, BLOCK, WIDTH], TILES)
    vs = gl.allocate_shared_memory(KIND, [BLOCKS, BLOCK, WIDTH], TILES)
    q_tail, g_tail, k_tail, v_tail = qs, gs, ks, vs
    if MORE:
        q_tail = gl.allocate_shared_memory(KIND, [TAIL, WIDTH], TILES)
        g_tail = gl.allocate_shared_memory(KIND, [TAIL, WIDTH], TILES)
        k_tail = gl.allocate_shared_memory(KIND, [TAIL, WIDTH], TILES)
        v_tail = gl.allocate_shared_memory(KIND, [TAIL, WIDTH], TILES)
    totals = gl.allocate_shared_memory(gl.float32, [PARTS, BLOCK], LINES)
    deltas = gl.allocate_shared_memory(gl.float32, [PARTS, BLOCK], LINES)
    by = gl.allocate_shared_memory(KIND, [BLOCK, HALF], HALF_TILES)

    _ask_for(qs, q_tail, q_at, BLOCKS, MORE, 3 * ACROSS, TOKENS)
    _ask_for(ks, k_tail, q_at + ACROSS, BLOCKS, MORE, 3 * ACROSS, TOKENS)
    _ask_for(vs, v_tail, q_at + 2 * ACROSS, BLOCKS, MORE, 3 * ACROSS, TOKENS)
    async_copy.commit_group()
    dxs = ()
    xs = ()
    lines = ()
    for i in gl.static_range(PARTS):
        place, inside = _place(i * BLOCK, _size(i, BLOCKS), ACROSS, TOKENS)
        dxs = dxs + (gl.load(grad_at + place, mask=inside, other=0.0),)
        xs = xs + (gl.load(out_at + place, mask=inside, other=0.0),)
        token = i * BLOCK + gl.arange(0, BLOCK, FLAT)
        lines = lines + (gl.load(total_at + token, mask=token < TOKENS, other=0.0),)
    by_dx = gl.zeros([TAIL, WIDTH], gl.float32, ROWS)
    for i in gl.static_range(PARTS):
        _turn(gs, g_tail, 0, i, BLOCKS).store(dxs[i])
        totals.index(i).store(lines[i] * BASE)
        dx = dxs[i].to(gl.float32)
        deltas.index(i).slice(0, _size(i, BLOCKS)).store(gl.sum(xs[i].to(gl.float32) * dx, 1))
        few = gl.sum(gl.reshape(dx, [_size(i, BLOCKS) // TAIL, TAIL, WIDTH]), 0)
        by_dx += gl.convert_layout(few, ROWS)
    # Weights of a query sum to one, so the sum of dv is that of the output's gradient, and that of dk is nothing.
    col = gl.arange(0, WIDTH, gl.SliceLayout(0, ROWS))
    gl.store(sums_at + ACROSS + col, gl.zeros([WIDTH], gl.float32, gl.SliceLayout(0, ROWS)))
    gl.store(sums_at + 2 * ACROSS + col, gl.sum(by_dx, 0))
    async_copy.wait_group(0)
    fence_async_shared()
    _meet()

    by_left = gl.zeros([BLOCK // 2, HALF], gl.float32, HALF_ROWS)
    by_right = gl.zeros([BLOCK // 2, HALF], gl.float32, HALF_ROWS)
    for number in range(0, PARTS):
        q = _left_of(qs, q_at, number, BLOCKS, MORE, 3 * ACROSS, TOKENS)
        g = _left_of(gs, grad_at, number, BLOCKS, MORE, ACROSS, TOKENS)
        dq = _of_queries(q, g, ks, vs, k_tail, v_tail, totals, deltas, number, power, TOKENS, BLOCKS, MORE)
        left, right = gl.split(gl.permute(gl.reshape((dq * scale).to(KIND), [BLOCK, 2, HALF]), [0, 2, 1]))
        by_left += _keep_half(dq_at, left, by, number * BLOCK, 3 * ACROSS, TOKENS)
        by_right += _keep_half(dq_at + HALF, right, by, number * BLOCK, 3 * ACROSS, TOKENS)
    half = gl.arange(0, HALF, gl.SliceLayout(0, HALF_ROWS))
    gl.store(sums_at + half, gl.sum(by_left, 0))
    gl.store(sums_at + HALF + half, gl.sum(by_right, 0))

    for number in range(0, PARTS):
        k = _left_of(ks, q_at + ACROSS, number, BLOCKS, MORE, 3 * ACROSS, TOKENS)
        v = _left_of(vs, q_at + 2 * ACROSS, number, BLOCKS, MORE, 3 * ACROSS, TOKENS)
        dk, dv = _of_keys(k, v, qs, gs, q_tail, g_tail, totals, deltas, number, power, BLOCKS, MORE)
        # A block that nobody reads any more, its own; and for the tail the first.
        _keep(dq_at + ACROSS, dk * scale, ks.index(number % BLOCKS), number * BLOCK, 3 * ACROSS, TOKENS)
        _keep(dq_at + 2 * ACROSS, dv, vs.index(number % BLOCKS), number * BLOCK, 3 * ACROSS, TOKENS)


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
    constants = _constants(qkv, heads)
    _forward[(qkv.shape[0] * heads,)](
        qkv, out, total, factors, WIDTH.value**-0.5, **constants, EIGHT=factors is not None, num_warps=4, maxnreg=168
    )


def short_backward(grad: Tensor, qkv: Tensor, out: Tensor, total: Tensor, heads: int) -> ShortGradients:
    assert all(each.is_contiguous() for each in (grad, qkv, out, total))
    dqkv = torch.empty_like(qkv)
    sums = torch.empty(qkv.shape[0], qkv.shape[2], dtype=torch.float32, device=qkv.device)
    _backward[(qkv.shape[0] * heads,)](
        grad, qkv, out, total, dqkv, sums, WIDTH.value**-0.5, **_constants(qkv, heads), num_warps=4
    )
    return ShortGradients(dqkv, summed(sums))


def _constants(qkv: Tensor, heads: int) -> dict[str, int]:
    """Whole blocks, and a tail for a few tokens more; more than that make another whole block."""
    tokens, rest = qkv.shape[1], qkv.shape[1] % BLOCK.value
    blocks = tokens // BLOCK.value + (rest > TAIL.value)
    return {"TOKENS": tokens, "HEADS": heads, "BLOCKS": blocks, "MORE": int(0 < rest <= TAIL.value)}
