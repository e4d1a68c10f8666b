"""Attention of a few queries: one program does a head of a picture, and reads its keys and values once.

There is nothing for the units that multiply matrices: a query is a row, and every key is read for it alone.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from patchwords.speed.kernels.few import FewGradients
from patchwords.speed.kernels.launch import block
from patchwords.speed.kernels.short import Attended

KEYS = 64  # at a time
WARPS = 4


@triton.jit
def _row(at, lane, inside):
    return tl.load(at + lane, mask=inside, other=0.0).to(tl.float32)


@triton.jit
def _forward(
    q_at, kv_at, out_at, total_at, scale, tokens,
    QUERIES: tl.constexpr, HEADS: tl.constexpr, WIDTH: tl.constexpr, LANES: tl.constexpr, KEYS: tl.constexpr,
):  # fmt: skip
    image, head = (tl.program_id(0) // HEADS).to(tl.int64), tl.program_id(0) % HEADS
    ACROSS: tl.constexpr = HEADS * WIDTH
    lane = tl.arange(0, LANES)
    wide = lane < WIDTH
    q_at += image * (QUERIES * ACROSS) + head * WIDTH
    out_at += image * (QUERIES * ACROSS) + head * WIDTH
    kv_at += image * tokens * (2 * ACROSS) + head * WIDTH
    qs = ()
    xs = ()
    highs = ()
    sums = ()
    for i in tl.static_range(QUERIES):
        qs = qs + (_row(q_at + i * ACROSS, lane, wide) * scale,)
        xs = xs + (tl.zeros((LANES,), dtype=tl.float32),)
        highs = highs + (tl.full((1,), -float("inf"), dtype=tl.float32),)
        sums = sums + (tl.zeros((1,), dtype=tl.float32),)
    for first in range(0, tokens, KEYS):
        key = first + tl.arange(0, KEYS)
        place = key[:, None] * (2 * ACROSS) + lane[None, :]
        inside = (key < tokens)[:, None] & wide[None, :]
        k = tl.load(kv_at + place, mask=inside, other=0.0).to(tl.float32)
        v = tl.load(kv_at + ACROSS + place, mask=inside, other=0.0).to(tl.float32)
        more_xs = ()
        more_highs = ()
        more_sums = ()
        for i in tl.static_range(QUERIES):
            logits = tl.where(key < tokens, tl.sum(k * qs[i][None, :], 1), -float("inf"))
            high = tl.maximum(highs[i], tl.max(logits, 0))
            before = tl.exp(highs[i] - high)
            a = tl.exp(logits - high)
            more_xs = more_xs + (xs[i] * before + tl.sum(a[:, None] * v, 0),)
            more_highs = more_highs + (high,)
            more_sums = more_sums + (sums[i] * before + tl.sum(a, 0),)
        xs = more_xs
        highs = more_highs
        sums = more_sums
    for i in tl.static_range(QUERIES):
        tl.store(out_at + i * ACROSS + lane, (xs[i] / sums[i]).to(out_at.dtype.element_ty), mask=wide)
        one = tl.program_id(0).to(tl.int64) * QUERIES + i + tl.arange(0, 1)
        tl.store(total_at + one, highs[i] + tl.log(sums[i]))


@triton.jit
def _backward(
    grad_at, q_at, kv_at, out_at, total_at, dq_at, dkv_at, scale, tokens,
    QUERIES: tl.constexpr, HEADS: tl.constexpr, WIDTH: tl.constexpr, LANES: tl.constexpr, KEYS: tl.constexpr,
):  # fmt: skip
    image, head = (tl.program_id(0) // HEADS).to(tl.int64), tl.program_id(0) % HEADS
    ACROSS: tl.constexpr = HEADS * WIDTH
    lane = tl.arange(0, LANES)
    wide = lane < WIDTH
    row = image * (QUERIES * ACROSS) + head * WIDTH
    kv = image * tokens * (2 * ACROSS) + head * WIDTH
    qs = ()
    dxs = ()
    deltas = ()
    totals = ()
    dqs = ()
    for i in tl.static_range(QUERIES):
        dx = _row(grad_at + row + i * ACROSS, lane, wide)
        qs = qs + (_row(q_at + row + i * ACROSS, lane, wide) * scale,)
        dxs = dxs + (dx,)
        deltas = deltas + (tl.sum(dx * _row(out_at + row + i * ACROSS, lane, wide), 0),)
        totals = totals + (tl.load(total_at + tl.program_id(0).to(tl.int64) * QUERIES + i),)
        dqs = dqs + (tl.zeros((LANES,), dtype=tl.float32),)
    for first in range(0, tokens, KEYS):
        key = first + tl.arange(0, KEYS)
        place = kv + key[:, None] * (2 * ACROSS) + lane[None, :]
        inside = (key < tokens)[:, None] & wide[None, :]
        k = tl.load(kv_at + place, mask=inside, other=0.0).to(tl.float32)
        v = tl.load(kv_at + ACROSS + place, mask=inside, other=0.0).to(tl.float32)
        dk = tl.zeros((KEYS, LANES), dtype=tl.float32)
        dv = tl.zeros((KEYS, LANES), dtype=tl.float32)
        more = ()
        for i in tl.static_range(QUERIES):
            a = tl.exp(tl.where(key < tokens, tl.sum(k * qs[i][None, :], 1), -float("inf")) - totals[i])
            dlogits = a * (tl.sum(v * dxs[i][None, :], 1) - deltas[i])
            dk += dlogits[:, None] * qs[i][None, :]
            dv += a[:, None] * dxs[i][None, :]
            more = more + (dqs[i] + tl.sum(dlogits[:, None] * k, 0),)
        dqs = more
        tl.store(dkv_at + place, dk.to(dkv_at.dtype.element_ty), mask=inside)
        tl.store(dkv_at + ACROSS + place, dv.to(dkv_at.dtype.element_ty), mask=inside)
    for i in tl.static_range(QUERIES):
        tl.store(dq_at + row + i * ACROSS + lane, (dqs[i] * scale).to(dq_at.dtype.element_ty), mask=wide)


def few(q: Tensor, kv: Tensor, heads: int) -> Attended:
    assert q.is_contiguous()
    assert kv.is_contiguous()
    out = torch.empty_like(q)
    total = torch.empty(q.shape[0], heads, q.shape[1], dtype=torch.float32, device=q.device)
    constants = _constants(q, heads)
    _forward[(q.shape[0] * heads,)](
        q, kv, out, total, constants["WIDTH"] ** -0.5, kv.shape[1], **constants, num_warps=WARPS
    )
    return Attended(out, total)


def few_backward(grad: Tensor, q: Tensor, kv: Tensor, out: Tensor, total: Tensor, heads: int) -> FewGradients:
    assert all(each.is_contiguous() for each in (grad, q, kv, out, total))
    dq, dkv, constants = torch.empty_like(q), torch.empty_like(kv), _constants(q, heads)
    _backward[(q.shape[0] * heads,)](
        grad, q, kv, out, total, dq, dkv, constants["WIDTH"] ** -0.5, kv.shape[1], **constants, num_warps=WARPS
    )
    return FewGradients(dq, dkv)


def _constants(q: Tensor, heads: int) -> dict[str, int]:
    width = q.shape[2] // heads
    return {"QUERIES": q.shape[1], "HEADS": heads, "WIDTH": width, "LANES": block(width), "KEYS": KEYS}
