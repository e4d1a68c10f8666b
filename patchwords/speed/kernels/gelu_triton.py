"""GELU, forward and backward, each one pass over the memory."""

from typing import Literal

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn import functional as F

from patchwords.speed.kernels import product, product_cublas
from patchwords.speed.kernels.gelu import Form, GeluGradients
from patchwords.speed.kernels.launch import block, programs
from patchwords.speed.kernels.norm import EightRows
from patchwords.speed.kernels.norm_triton import LARGEST, LEAST, eight_rows
from patchwords.speed.kernels.sums_triton import summed

ROWS, COLS = 2, 512  # of a tile, backward
EACH = 8  # programs on a multiprocessor, which go on from row to row
WIDE = 512  # numbers of a row that a warp holds, backward with a scale for each row
WARPS_EACH = 16  # on a multiprocessor, of those that hold whole rows


@triton.jit
def _gate(h, TANH: tl.constexpr):
    """The share of h that GELU lets through, and GELU's slope: with tanh, (1 + tanh u) / 2 is the sigmoid of 2u.

    Without, the bell that the slope needs makes the share as well: 7.1.26 of Abramowitz and Stegun, right to 7e-8,
    which is what single precision keeps of erf.
    """
    square = h * h
    if TANH:  # exp(-2u) is 2 to the power of -h (..)
        share = 1.0 / (1.0 + tl.exp2(-h * (2.302208198144325 + 0.1029432395800235 * square)))
        return share, share + share * (1.0 - share) * (h * (1.5957691216057308 + 0.2140644488178007 * square))
    bell = tl.exp2(-0.7213475204444817 * square)  # exp(-h² / 2)
    t = 1.0 / (1.0 + 0.2316418882663604 * tl.abs(h))
    beyond = t * (0.127414796 + t * (-0.142248368 + t * (0.7107068705 + t * (-0.7265760135 + t * 0.5307027145)))) * bell
    share = tl.where(h < 0.0, beyond, 1.0 - beyond)
    return share, share + h * (0.3989422804014327 * bell)


@triton.jit
def _forward(h_at, bias_at, a_at, count, width, BIAS: tl.constexpr, TANH: tl.constexpr, BLOCK: tl.constexpr):
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = place < count
    h = tl.load(h_at + place, mask=inside, other=0.0).to(tl.float32)
    if BIAS:  # its columns without a division of 64 bits, which is slow
        cols = (tl.program_id(0) % width * BLOCK + tl.arange(0, BLOCK)) % width
        h += tl.load(bias_at + cols).to(tl.float32)
    share, _ = _gate(h, TANH)
    tl.store(a_at + place, (h * share).to(a_at.dtype.element_ty), mask=inside)


@triton.jit
def _eight(h_at, bias_at, a_at, scale_at, width, BIAS: tl.constexpr, FORM: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    inside = cols < width
    a = tl.load(h_at + row * width + cols, mask=inside, other=0.0).to(tl.float32)
    if BIAS:
        a += tl.load(bias_at + cols, mask=inside, other=0.0).to(tl.float32)
    if FORM == "tanh":  # one instruction, right to eleven bits: many more than are kept
        u = 0.7978845608028654 * (a + 0.044715 * a * a * a)
        t = tl.inline_asm_elementwise("tanh.approx.f32 $0, $1;", "=f,f", [u], dtype=tl.float32, is_pure=True, pack=1)
        a = 0.5 * a * (1.0 + t)
    elif FORM == "none":
        share, _ = _gate(a, False)
        a = a * share
    scale = tl.maximum(tl.max(tl.abs(a), 0), LEAST) / LARGEST
    tl.store(a_at + row * width + cols, (a * (1.0 / scale)).to(a_at.dtype.element_ty), mask=inside)
    tl.store(scale_at + row, scale)


@triton.jit
def _backward(
    da_at, h_at, bias_at, dh_at, a_at, parts_at, rows, width,
    BIAS: tl.constexpr, TANH: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """Row after row, while the next ones are on their way to shared memory."""
    first, step = tl.program_id(1), tl.num_programs(1)
    cols = tl.program_id(0) * COLS + tl.arange(0, COLS)
    sums = tl.zeros((ROWS, COLS), dtype=tl.float32)
    if BIAS:
        bias = tl.load(bias_at + cols, mask=cols < width, other=0.0).to(tl.float32)[None, :]
    for start in tl.range(first * ROWS, rows, step * ROWS, num_stages=STAGES):
        row = start + tl.arange(0, ROWS)
        place = row.to(tl.int64)[:, None] * width + cols[None, :]
        inside = (row < rows)[:, None] & (cols < width)[None, :]
        h = tl.load(h_at + place, mask=inside, other=0.0).to(tl.float32)
        da = tl.load(da_at + place, mask=inside, other=0.0).to(tl.float32)
        if BIAS:
            h += bias
        share, slope = _gate(h, TANH)
        dh = da * slope
        tl.store(dh_at + place, dh.to(dh_at.dtype.element_ty), mask=inside)
        tl.store(a_at + place, (h * share).to(a_at.dtype.element_ty), mask=inside)
        sums += dh  # nothing where da is nothing
    tl.store(parts_at + first.to(tl.int64) * width + cols, tl.sum(sums, 0), mask=cols < width)


@triton.jit
def _backward_both(
    da_at, h_at, bias_at, dh_at, a_at, eight_at, scale_at, parts_at, rows, width,
    BIAS: tl.constexpr, TANH: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """A row at a time, since its scale is known when all of it is there; the next one is on its way meanwhile."""
    first, step = tl.program_id(0), tl.num_programs(0)
    cols = tl.arange(0, BLOCK)
    inside = cols < width
    sums = tl.zeros((BLOCK,), dtype=tl.float32)
    if BIAS:
        bias = tl.load(bias_at + cols, mask=inside, other=0.0)
    end = rows * tl.full((1,), width, tl.int64)
    place = first.to(tl.int64) * width + cols
    next_h = tl.load(h_at + place, mask=inside, other=0.0)
    next_da = tl.load(da_at + place, mask=inside, other=0.0)
    for row in range(first, rows, step):
        h, da = next_h.to(tl.float32), next_da.to(tl.float32)
        if BIAS:
            h += bias.to(tl.float32)
        place = row * tl.full((1,), width, tl.int64) + cols
        coming = (row + step) * tl.full((1,), width, tl.int64) + cols
        there = inside & (coming < end)
        next_h = tl.load(h_at + coming, mask=there, other=0.0)
        next_da = tl.load(da_at + coming, mask=there, other=0.0)
        share, slope = _gate(h, TANH)
        tl.store(a_at + place, (h * share).to(a_at.dtype.element_ty), mask=inside)
        wide = da * slope
        dh = wide.to(dh_at.dtype.element_ty)
        tl.store(dh_at + place, dh, mask=inside)
        sums += dh.to(tl.float32)  # nothing beyond the width, where da is nothing
        scale = tl.maximum(tl.max(tl.abs(wide), 0), LEAST) / LARGEST
        tl.store(eight_at + place, (wide * (1.0 / scale)).to(eight_at.dtype.element_ty), mask=inside)
        tl.store(scale_at + row, scale)
    tl.store(parts_at + first.to(tl.int64) * width + cols, sums, mask=inside)


def gelu(h: Tensor, bias: Tensor | None, form: Form) -> Tensor:
    assert h.is_contiguous()
    a, size = torch.empty_like(h), min(2048, block(h.numel()))
    _forward[(triton.cdiv(h.numel(), size),)](
        h, bias, a, h.numel(), h.shape[1], BIAS=bias is not None, TANH=form == "tanh", BLOCK=size, num_warps=4
    )
    return a


def linear_gelu(x: Tensor, weight: Tensor, bias: Tensor, form: Form) -> Tensor:
    # The library's matrix product computes the form with tanh on its way out. It is 2e-4 from the exact one, and
    # rounding to bf16 is 2e-3.
    if form == "tanh" or x.dtype == torch.bfloat16:
        products = product if product_cublas.missing() else product_cublas
        return products.product_gelu(x, weight, bias)
    return gelu(F.linear(x, weight), bias, form)


def gelu_eight(h: Tensor, bias: Tensor | None, form: Form) -> EightRows:
    return _rounded(h, bias, form, 2048)


def eight(x: Tensor) -> EightRows:
    return _rounded(x, None, "plain", 512)


def gelu_backward(da: Tensor, h: Tensor, bias: Tensor | None, form: Form) -> GeluGradients:
    assert da.is_contiguous()
    assert h.is_contiguous()
    rows, width = h.shape
    across = triton.cdiv(width, COLS)
    down = min(triton.cdiv(rows, ROWS), max(1, programs(h.device, EACH) // across))
    a = torch.empty_like(h)
    parts = torch.empty(down, width, dtype=torch.float32, device=h.device)
    _backward[(across, down)](
        da, h, bias, da, a, parts, rows, width,
        BIAS=bias is not None, TANH=form == "tanh", ROWS=ROWS, COLS=COLS, STAGES=4,
        num_warps=4, maxnreg=512 // EACH,  # all programs are there at the same time
    )  # fmt: skip
    return GeluGradients(da, a, summed(parts))


def gelu_backward_both(da: Tensor, h: Tensor, bias: Tensor | None, form: Form) -> tuple[GeluGradients, EightRows]:
    assert da.is_contiguous()
    assert h.is_contiguous()
    rows, width = h.shape
    warps = max(1, min(16, block(width) // WIDE))
    count = min(rows, programs(h.device, max(1, WARPS_EACH // warps)))
    a, made = torch.empty_like(h), eight_rows(h.shape, h.device)
    parts = torch.empty(count, width, dtype=torch.float32, device=h.device)
    _backward_both[(count,)](
        da, h, bias, da, a, *made, parts, rows, width,
        BIAS=bias is not None, TANH=form == "tanh", BLOCK=block(width), num_warps=warps,
    )  # fmt: skip
    return GeluGradients(da, a, summed(parts)), made


def _rounded(x: Tensor, bias: Tensor | None, form: Form | Literal["plain"], warp: int) -> EightRows:
    assert x.is_contiguous()
    (rows, width), made = x.shape, eight_rows(x.shape, x.device)
    warps = max(1, min(16, block(width) // warp))
    _eight[(rows,)](x, bias, *made, width, BIAS=bias is not None, FORM=form, BLOCK=block(width), num_warps=warps)
    return made
