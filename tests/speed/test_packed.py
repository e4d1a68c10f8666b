"""Packed linear layers against the plain ones, on fresh random inputs."""

import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from patchwords.speed.packed import STEPS, STEPS_BEFORE_VNNI, Int8, Packed, Then, quantised, rounded, then

FORMS = [None, nn.GELU(), nn.GELU(approximate="tanh")]
forms = pytest.mark.parametrize("activation", FORMS, ids=["nothing", "gelu", "gelu-tanh"])
biases = pytest.mark.parametrize("bias", [True, False])
shapes = pytest.mark.parametrize("shape", [(1,), (5,), (2, 7), (2, 3, 4)])


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch.seed()


def layer(bias: bool) -> nn.Linear:
    return nn.Linear(24, 40, bias=bias).requires_grad_(False)


def plain(x: Tensor, linear: nn.Linear, activation: nn.GELU | None) -> Tensor:
    product: Tensor = linear(x)
    return product if activation is None else F.gelu(product, approximate=activation.approximate)


def after(activation: nn.GELU | None) -> Then:
    return Then() if activation is None else then(activation)


@forms
@biases
@shapes
def test_packed_is_the_same_product(shape: tuple[int, ...], bias: bool, activation: nn.GELU | None) -> None:
    linear, x = layer(bias), torch.randn(*shape, 24)
    packed = Packed(linear.weight, linear.bias, after(activation), torch.float32)
    assert torch.allclose(packed(x), plain(x, linear, activation), atol=1e-5)


@forms
def test_packed_in_bf16_rounds_no_more_than_bf16_does(activation: nn.GELU | None) -> None:
    linear, x = layer(True), torch.randn(5, 24).bfloat16()
    found = Packed(linear.weight, linear.bias, after(activation), torch.bfloat16)(x)
    assert found.dtype == torch.bfloat16
    exact = plain(x.double(), linear.double(), activation)
    assert torch.allclose(found.double(), exact, rtol=2**-7, atol=0.02)


@forms
@biases
@shapes
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_int8_is_the_product_of_what_was_rounded(
    shape: tuple[int, ...], bias: bool, activation: nn.GELU | None, dtype: torch.dtype
) -> None:
    linear, x = layer(bias), torch.randn(*shape, 24) + 0.5
    found = Int8(linear.weight, linear.bias, after(activation), dtype)
    bytes_, scale, zero = quantised(x, found.steps)
    whole, scales = rounded(linear.weight)
    linear.weight.copy_(whole * scales[:, None])
    expected = plain((bytes_.float() - zero) * scale, linear, activation)
    assert found(x).dtype == dtype
    assert torch.allclose(found(x).float(), expected, atol=1e-5 if dtype == torch.float32 else 0.02)


@pytest.mark.parametrize("steps", [STEPS, STEPS_BEFORE_VNNI])
@pytest.mark.parametrize("shift", [-30.0, -1.0, 0.0, 1.0, 30.0])
def test_no_value_is_off_by_more_than_half_a_step(shift: float, steps: int) -> None:
    for _ in range(50):
        x = torch.randn(200) * torch.rand(()) * 10 + shift
        bytes_, scale, zero = quantised(x, steps)
        assert ((bytes_.float() - zero) * scale - x).abs().max() <= 0.51 * scale
        assert bytes_.max() <= steps + 1


@pytest.mark.parametrize("value", [0.0, 1.0, -3.0])
def test_a_constant_can_be_rounded(value: float) -> None:
    bytes_, scale, zero = quantised(torch.full((4, 4), value), STEPS)
    assert torch.allclose((bytes_.float() - zero) * scale, torch.full((4, 4), value), atol=0.02)


def test_an_output_without_weights_stays_at_nothing() -> None:
    whole, scales = rounded(torch.tensor([[0.0, 0.0], [1.0, -0.5]]))
    assert whole.tolist() == [[0, 0], [127, -64]]
    assert torch.isfinite(scales).all()


@pytest.mark.parametrize("wrong", [torch.nan, torch.inf])
def test_what_is_no_number_does_not_become_one(wrong: float) -> None:
    linear, x = layer(True), torch.randn(3, 24)
    x[1, 2] = wrong
    assert not Int8(linear.weight, linear.bias, Then(), torch.float32)(x).isfinite().all()


@pytest.mark.parametrize("place", [0, 5, -1])
@pytest.mark.parametrize("wrong", [torch.nan, torch.inf, -torch.inf])
def test_scales_know_what_is_no_number_wherever_it_stands(wrong: float, place: int) -> None:
    x = torch.randn(3, 4)
    x.view(-1)[place] = wrong
    _, scale, _ = quantised(x, STEPS)
    assert math.isnan(scale)
