"""GELU's kernels compute what their plain twins do, and these what autograd finds."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from patchwords.speed.kernels import gelu as plain
from patchwords.speed.kernels.gelu import Form
from patchwords.speed.kernels.norm import EightRows, rounded

gelu_triton = pytest.importorskip("patchwords.speed.kernels.gelu_triton", reason="Triton is not installed")
pytestmark = [
    pytest.mark.parametrize("form", ["tanh", "none"]),
    pytest.mark.parametrize("kept", [None, torch.float32, torch.bfloat16]),  # in what the bias is, if there is one
    pytest.mark.filterwarnings("ignore:overflow encountered in exp"),  # of the interpreter: the sigmoid of it is right
]


def bias_of(h: Tensor, kept: torch.dtype | None) -> Tensor | None:
    """Large enough that what leaves it out is wrong."""
    return None if kept is None else torch.randn(h.shape[1], device=h.device).to(kept)


def near(found: Tensor, expected: Tensor, tolerance: float) -> None:
    """Of a few numbers far below zero GELU leaves next to nothing, and that is mostly rounding."""
    assert found.dtype == expected.dtype
    assert (found.double() - expected.double()).norm() <= tolerance * expected.double().norm().clamp(min=0.1)


def test_a_few_numbers_of_which_next_to_nothing_is_left(
    form: Form, kept: torch.dtype | None, device: torch.device
) -> None:
    h = torch.tensor([[-3.9215641, -6.6540761, -0.7305831, -3.9437220, -3.2780762]], device=device)
    bias = None if kept is None else torch.zeros(5, dtype=kept, device=device)
    da = torch.tensor([[1.5, -3.0, 0.1, 2.5, -2.0]], device=device)
    for found, other in zip(
        gelu_triton.gelu_backward(da.clone(), h, bias, form), plain.gelu_backward(da, h, bias, form), strict=True
    ):
        near(found, other, 1e-5)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 8e-3)])
@pytest.mark.parametrize("shape", [(37, 96), (3, 1030), (1, 5)])
def test_twins(
    form: Form,
    kept: torch.dtype | None,
    shape: tuple[int, int],
    dtype: torch.dtype,
    tolerance: float,
    device: torch.device,
) -> None:
    h, da = (3 * torch.randn(shape, device=device).to(dtype) for _ in range(2))
    bias = bias_of(h, kept)
    near(gelu_triton.gelu(h, bias, form), plain.gelu(h, bias, form), tolerance)
    expected = plain.gelu_backward(da, h, bias, form)
    for found, other in zip(gelu_triton.gelu_backward(da.clone(), h, bias, form), expected, strict=True):
        near(found, other, 2 * tolerance)


def test_eight_bits(
    form: Form, kept: torch.dtype | None, device: torch.device, same_eight: Callable[[EightRows, EightRows], None]
) -> None:
    h = 3 * torch.randn(9, 96, device=device).to(torch.bfloat16)
    same_eight(gelu_triton.eight(h), rounded(h))
    if form == "tanh" and device.type != "cuda":
        pytest.skip("Triton's interpreter has no tanh in one instruction")
    bias = bias_of(h, kept)
    found, expected = gelu_triton.gelu_eight(h, bias, form), plain.gelu_eight(h, bias, form)
    torch.testing.assert_close(found.scale, expected.scale, rtol=2e-3, atol=0.0)  # tanh is right to eleven bits
    same_eight(found._replace(scale=expected.scale), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [(37, 96), (5, 1030), (1, 16)])
def test_the_gradient_in_eight_bits_besides(
    form: Form,
    kept: torch.dtype | None,
    shape: tuple[int, int],
    dtype: torch.dtype,
    device: torch.device,
    same_eight: Callable[[EightRows, EightRows], None],
) -> None:
    h, da = (3 * torch.randn(shape, device=device).to(dtype) for _ in range(2))
    da *= torch.logspace(-20, 2, shape[0], device=device, dtype=dtype)[:, None]  # every row has a scale of its own
    da[0] = 0.0
    bias = bias_of(h, kept)
    found, eight = gelu_triton.gelu_backward_both(da.clone(), h, bias, form)
    expected, other = plain.gelu_backward_both(da, h, bias, form)
    for one, two in zip(found, expected, strict=True):
        near(one, two, 1e-5 if dtype == torch.float32 else 0.016)
    same_eight(eight, other)
    back = plain.gelu_backward(da, h, bias, form)
    assert all(torch.equal(one, two) for one, two in zip(expected, back, strict=True))


def test_the_twin_is_the_gradient_that_autograd_finds(form: Form, kept: torch.dtype | None) -> None:
    h, da = torch.randn(5, 7, dtype=torch.float64, requires_grad=True), torch.randn(5, 7, dtype=torch.float64)
    given = bias_of(h, kept)
    bias = (torch.zeros(7) if given is None else given).double().requires_grad_()
    a = F.gelu(h + bias, approximate=form)
    expected = torch.autograd.grad(a, (h, bias), da)
    found = plain.gelu_backward(da, h.detach(), given, form)
    torch.testing.assert_close((found.h, found.bias), expected)
    torch.testing.assert_close(found.a, a)
    torch.testing.assert_close(plain.gelu(h.detach(), given, form), a)
