"""Attention of short sequences: the plain twins against torch and autograd, Triton's kernels against the twins."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from patchwords.speed.kernels.norm import EightRows
from patchwords.speed.kernels.short import short, short_backward, short_eight, taken

short_triton = pytest.importorskip("patchwords.speed.kernels.short_triton", reason="Triton is not installed")

Same = Callable[[EightRows, EightRows], None]

# batch, tokens, heads, width of a head: whole blocks of 64, a few tokens beside them, a block that is not full
SEQUENCES = [
    (1, 197, 1, 64),
    (2, 65, 2, 64),
    (1, 128, 1, 64),
    (2, 50, 2, 64),
    (1, 100, 1, 64),
    (3, 7, 2, 64),
    (1, 256, 1, 64),
]


def drawn(shape: tuple[int, int, int, int], dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
    """qkv, and the gradient of the output."""
    batch, tokens, heads, width = shape
    qkv = 2 * torch.randn(batch, tokens, 3 * heads * width, device=device)
    return qkv.to(dtype), torch.randn(batch, tokens, heads * width, device=device).to(dtype)


def precisions(device: torch.device) -> dict[torch.dtype, float]:
    """What the kernels are tested in, and how near: interpreted, products of bfloat16 are not known."""
    if device.type == "cuda":
        return {torch.bfloat16: 2e-2, torch.float16: 3e-3}
    return {torch.float32: 1e-5, torch.float16: 3e-3}


def near(found: Tensor, expected: Tensor, tolerance: float) -> None:
    """Within a share of the largest number there is."""
    assert found.shape == expected.shape
    assert (found.double() - expected).abs().max() <= tolerance * expected.abs().max().clamp(min=1.0)


@pytest.mark.parametrize("shape", SEQUENCES)
def test_the_twin_computes_what_torch_does(shape: tuple[int, int, int, int], device: torch.device) -> None:
    qkv, grad = drawn(shape, torch.float64, device)
    qkv.requires_grad_()
    q, k, v = (part.unflatten(-1, (shape[2], -1)).transpose(1, 2) for part in qkv.chunk(3, -1))
    expected = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
    out, total = short(qkv.detach(), shape[2])
    torch.testing.assert_close(out, expected)
    (dqkv,) = torch.autograd.grad(expected, qkv, grad)
    found = short_backward(grad, qkv.detach(), out, total, shape[2])
    torch.testing.assert_close(found.qkv, dqkv)
    torch.testing.assert_close(found.sums, dqkv.sum((0, 1)))


@pytest.mark.parametrize("shape", SEQUENCES)
def test_the_kernels_compute_what_the_twins_do(shape: tuple[int, int, int, int], device: torch.device) -> None:
    for dtype, tolerance in precisions(device).items():
        qkv, grad = drawn(shape, dtype, device)
        out, total = short_triton.short(qkv, shape[2])
        expected = short(qkv.double(), shape[2])
        assert (out.dtype, total.dtype) == (dtype, torch.float32)
        near(out, expected.out, tolerance)
        near(total, expected.total, 1e-5)
        found = short_triton.short_backward(grad, qkv, out, total, shape[2])
        # From the output as it was rounded: where one key has all the weight, little else is left of the gradient.
        wanted = short_backward(grad.double(), qkv.double(), out.double(), total.double(), shape[2])
        assert found.qkv.dtype == dtype
        near(found.qkv, wanted.qkv, tolerance)
        near(found.sums, wanted.sums, tolerance)


@pytest.mark.parametrize("shape", SEQUENCES)
def test_the_output_in_eight_bits(shape: tuple[int, int, int, int], device: torch.device, same_eight: Same) -> None:
    dtype = next(iter(precisions(device)))
    qkv, _ = drawn(shape, dtype, device)
    factors = 20.0 * torch.rand(shape[2] * shape[3], device=device) + 1.0
    rows, expected = (each(qkv, shape[2], factors) for each in (short_triton.short_eight, short_eight))
    ones = torch.ones(len(expected), 1, device=device)
    same_eight(EightRows(rows, ones), EightRows(expected, ones))


def test_large_and_small_logits_stay_finite(device: torch.device) -> None:
    shape, dtype = (2, 70, 1, 64), next(iter(precisions(device)))
    qkv, grad = drawn(shape, dtype, device)
    qkv[0, :, :128] *= 12.0  # logits of hundreds
    qkv[1, :, :64], qkv[1, :, 64:128] = 10.0, -5.0  # all logits of the second picture are far below zero
    out, total = short_triton.short(qkv, 1)
    assert total[1].max() < -250
    found = short_triton.short_backward(grad, qkv, out, total, 1)
    near(out, short(qkv.double(), 1).out, 2e-2)
    # From the output as it was rounded: what rounding took from it, such logits make hundreds of times larger.
    wanted = short_backward(grad.double(), qkv.double(), out.double(), total.double(), 1)
    near(found.qkv, wanted.qkv, 2e-2)


def test_the_same_bits_twice(device: torch.device) -> None:
    qkv, grad = drawn((2, 67, 2, 64), torch.float16, device)
    out, total = short_triton.short(qkv, 2)
    first, second = (short_triton.short_backward(grad, qkv, out, total, 2) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_what_the_kernels_take() -> None:
    assert taken(197, 64)
    assert taken(65, 64)
    assert not taken(257, 64)
    assert not taken(197, 32)
