"""GELU's kernels compute what their plain twins do, and these what autograd finds."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from patchwords.speed.kernels import gelu as plain
from patchwords.speed.kernels.gelu import Form
from patchwords.speed.kernels.norm import rounded

gelu_triton = pytest.importorskip("patchwords.speed.kernels.gelu_triton", reason="Triton is not installed")
pytestmark = [
    pytest.mark.parametrize("form", ["tanh", "none"]),
    pytest.mark.filterwarnings("ignore:overflow encountered in exp"),  # of the interpreter: the sigmoid of it is right
]


eight_bits = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="Triton's interpreter carries no rounding into the exponent of eight bits"
)


def near(found: Tensor, expected: Tensor, tolerance: float) -> None:
    assert found.dtype == expected.dtype
    assert (found.double() - expected.double()).norm() <= tolerance * expected.double().norm()


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 8e-3)])
@pytest.mark.parametrize("shape", [(37, 96), (3, 1030), (1, 5)])
def test_twins(form: Form, shape: tuple[int, int], dtype: torch.dtype, tolerance: float, device: torch.device) -> None:
    h, da = (3 * torch.randn(shape, device=device).to(dtype) for _ in range(2))
    near(gelu_triton.gelu(h, form), plain.gelu(h, form), tolerance)
    expected = plain.gelu_backward(da, h, form)
    for found, other in zip(gelu_triton.gelu_backward(da.clone(), h, form), expected, strict=True):
        near(found, other, 2 * tolerance)


@eight_bits
def test_eight_bits(form: Form, device: torch.device) -> None:
    h = 3 * torch.randn(9, 96, device=device).to(torch.bfloat16)
    for found, expected in (
        (gelu_triton.gelu_eight(h, form), plain.gelu_eight(h, form)),
        (gelu_triton.eight(h), rounded(h)),
    ):
        near(found[1], expected[1], 1e-5)
        near(found[0].float(), expected[0].float(), 0.05)


def test_the_twin_is_the_gradient_that_autograd_finds(form: Form) -> None:
    h, da = torch.randn(5, 7, dtype=torch.float64, requires_grad=True), torch.randn(5, 7, dtype=torch.float64)
    a = F.gelu(h, approximate=form)
    (expected,) = torch.autograd.grad(a, h, da)
    found = plain.gelu_backward(da, h.detach(), form)
    torch.testing.assert_close(found.h, expected)
    torch.testing.assert_close(found.a, a)
    torch.testing.assert_close(found.bias, expected.sum(0))
