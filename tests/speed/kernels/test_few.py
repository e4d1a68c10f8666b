"""Attention of a few queries: the plain twins against torch and autograd, Triton's kernels against the twins."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from patchwords.speed.kernels.few import few, few_backward

few_triton = pytest.importorskip("patchwords.speed.kernels.few_triton", reason="Triton is not installed")

# batch, queries, tokens, heads, width of a head: a full block of keys, one that is not, several; a width that is none
CASES = [(2, 1, 64, 2, 64), (3, 1, 17, 3, 16), (2, 2, 198, 1, 64), (1, 3, 70, 2, 24)]
Case = tuple[int, int, int, int, int]


def drawn(case: Case, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """q, k and v, and the gradient of the output."""
    batch, queries, tokens, heads, width = case
    shapes = (queries, heads * width), (tokens, 2 * heads * width), (queries, heads * width)
    q, kv, grad = (torch.randn(batch, *shape, device=device).to(dtype) for shape in shapes)
    return 2 * q, kv, grad


def near(found: Tensor, expected: Tensor, tolerance: float) -> None:
    """Within a share of the largest number there is."""
    assert found.shape == expected.shape
    assert (found.double() - expected).abs().max() <= tolerance * expected.abs().max().clamp(min=1.0)


@pytest.mark.parametrize("case", CASES)
def test_the_twin_computes_what_torch_does(case: Case, device: torch.device) -> None:
    q, kv, grad = drawn(case, torch.float64, device)
    q.requires_grad_()
    kv.requires_grad_()
    asks, k, v = (part.unflatten(-1, (case[3], -1)).transpose(1, 2) for part in (q, *kv.chunk(2, -1)))
    expected = F.scaled_dot_product_attention(asks, k, v).transpose(1, 2).flatten(2)
    dq, dkv = torch.autograd.grad(expected, (q, kv), grad)
    out, total = few(q.detach(), kv.detach(), case[3])
    torch.testing.assert_close(out, expected)
    found = few_backward(grad, q.detach(), kv.detach(), out, total, case[3])
    torch.testing.assert_close((found.q, found.kv), (dq, dkv))


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 1e-2)])
def test_the_kernels_compute_what_the_twins_do(
    case: Case, dtype: torch.dtype, tolerance: float, device: torch.device
) -> None:
    q, kv, grad = drawn(case, dtype, device)
    out, total = few_triton.few(q, kv, case[3])
    expected = few(q.double(), kv.double(), case[3])
    assert (out.dtype, total.dtype) == (dtype, torch.float32)
    near(out, expected.out, tolerance)
    near(total, expected.total, 1e-5)
    found = few_triton.few_backward(grad, q, kv, out, total, case[3])
    # From the output as it was rounded: where one key has all the weight, little else is left of the gradient.
    wanted = few_backward(grad.double(), q.double(), kv.double(), out.double(), total.double(), case[3])
    assert (found.q.dtype, found.kv.dtype) == (dtype, dtype)
    near(found.q, wanted.q, tolerance)
    near(found.kv, wanted.kv, tolerance)


def test_large_logits_stay_finite(device: torch.device) -> None:
    q, kv, grad = drawn((2, 1, 70, 1, 64), torch.float32, device)
    q[0] *= 100.0
    q[1], kv[1, :, :64] = 10.0, -50.0  # all logits of the second picture are far below zero
    out, total = few_triton.few(q, kv, 1)
    assert total[1].max() < -1000  # a key that is none would weigh more than all
    found = few_triton.few_backward(grad, q, kv, out, total, 1)
    expected = few(q.double(), kv.double(), 1)
    near(out, expected.out, 1e-4)
    near(found.kv, few_backward(grad.double(), q.double(), kv.double(), *expected, 1).kv, 1e-3)
