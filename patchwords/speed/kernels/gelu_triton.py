"""GELU, forward and backward, each one pass over the memory."""

from typing import Literal

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn import functional as F

from patchwords.speed.kernels.gelu import Form, GeluGradients
from patchwords.speed.kernels.launch import block, programs

ROWS, COLS = 4, 1024  # of a tile, backward


@triton.jit
def _share(h, TANH: tl.constexpr):
    """The share of h that GELU lets through: with tanh, (1 + tanh u) / 2 is the sigmoid of 2u."""
    if TANH:
        return tl.sigmoid(1.5957691216057308 * (h + 0.044715 * h * h * h))  # 2 · sqrt(2 / pi)
    return 0.5 * (1.0 + tl.erf(h * 0.7071067811865476))


@triton.jit
def _forward(h_at, a_at, count, TANH: tl.constexpr, BLOCK: tl.constexpr):
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = place < count
    h = tl.load(h_at + place, mask=inside, other=0.0).to(tl.float32)
    tl.store(a_at + place, (h * _share(h, TANH)).to(a_at.dtype.element_ty), mask=inside)


@triton.jit
def _eight(h_at, a_at, scale_at, width, FORM: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    inside = cols < width
    a = tl.load(h_at + row * width + cols, mask=inside, other=0.0).to(tl.float32)
    if FORM == "tanh":  # one instruction, right to eleven bits: many more than are kept
        u = 0.7978845608028654 * (a + 0.044715 * a * a * a)
        t = tl.inline_asm_elementwise("tanh.approx.f32 $0, $1;", "=f,f", [u], dtype=tl.float32, is_pure=True, pack=1)
        a = 0.5 * a * (1.0 + t)
    elif FORM == "none":
        a = a * _share(a, False)
    scale = tl.maximum(tl.max(tl.abs(a), 0), 1e-12) / 448.0
    tl.store(a_at + row * width + cols, (a * (1.0 / scale)).to(a_at.dtype.element_ty), mask=inside)
    tl.store(scale_at + row, scale)


@triton.jit
def _backward(
    da_at, h_at, dh_at, a_at, parts_at, rows, width,
    TANH: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    first, step = tl.program_id(1), tl.num_programs(1)
    cols = tl.program_id(0) * COLS + tl.arange(0, COLS)
    sums = tl.zeros((ROWS, COLS), dtype=tl.float32)
    for start in range(first * ROWS, rows, step * ROWS):
        row = start + tl.arange(0, ROWS)
        place = row.to(tl.int64)[:, None] * width + cols[None, :]
        inside = (row < rows)[:, None] & (cols < width)[None, :]
        h = tl.load(h_at + place, mask=inside, other=0.0).to(tl.float32)
        da = tl.load(da_at + place, mask=inside, other=0.0).to(tl.float32)
        share = _share(h, TANH)
        if TANH:
            slope = share * (1.0 - share) * 1.5957691216057308 * (1.0 + 0.134145 * h * h)
        else:
            slope = 0.3989422804014327 * tl.exp(-0.5 * h * h)
        dh = (da * (share + h * slope)).to(dh_at.dtype.element_ty)
        tl.store(dh_at + place, dh, mask=inside)
        tl.store(a_at + place, (h * share).to(a_at.dtype.element_ty), mask=inside)
        sums += tl.where(inside, dh.to(tl.float32), 0.0)
    tl.store(parts_at + first.to(tl.int64) * width + cols, tl.sum(sums, 0), mask=cols < width)


def gelu(h: Tensor, form: Form) -> Tensor:
    a, size = torch.empty_like(h), min(2048, block(h.numel()))
    _forward[(triton.cdiv(h.numel(), size),)](h, a, h.numel(), TANH=form == "tanh", BLOCK=size, num_warps=8)
    return a


def linear_gelu(x: Tensor, weight: Tensor, bias: Tensor, form: Form) -> Tensor:
    # The library's matrix product computes the form with tanh on its way out. It is 2e-4 from the exact one, and
    # rounding to bf16 is 2e-3.
    if form == "tanh" or x.dtype == torch.bfloat16:
        return torch._addmm_activation(bias, x, weight.T, use_gelu=True)
    return gelu(F.linear(x, weight, bias), form)


def gelu_eight(h: Tensor, form: Form) -> tuple[Tensor, Tensor]:
    return _rounded(h, form, 2048)


def eight(x: Tensor) -> tuple[Tensor, Tensor]:
    return _rounded(x, "plain", 512)


def gelu_backward(da: Tensor, h: Tensor, form: Form) -> GeluGradients:
    assert da.is_contiguous()
    assert h.is_contiguous()
    rows, width = h.shape
    across = triton.cdiv(width, COLS)
    down = min(triton.cdiv(rows, ROWS), max(1, programs(h.device) // across))
    a = torch.empty_like(h)
    parts = torch.empty(down, width, dtype=torch.float32, device=h.device)
    _backward[(across, down)](da, h, da, a, parts, rows, width, TANH=form == "tanh", ROWS=ROWS, COLS=COLS, num_warps=8)
    return GeluGradients(da, a, parts.sum(0))


def _rounded(x: Tensor, form: Form | Literal["plain"], warp: int) -> tuple[Tensor, Tensor]:
    assert x.is_contiguous()
    rows, width = x.shape
    a = torch.empty_like(x, dtype=torch.float8_e4m3fn)
    scale = torch.empty(rows, 1, dtype=torch.float32, device=x.device)
    _eight[(rows,)](x, a, scale, width, FORM=form, BLOCK=block(width), num_warps=max(1, min(16, block(width) // warp)))
    return a, scale
