"""The norm's kernels compute what their plain twins do, and these what autograd finds."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from patchwords.speed.kernels import norm as plain

norm_triton = pytest.importorskip("patchwords.speed.kernels.norm_triton", reason="Triton is not installed")

SHAPES = [(3, 5, 64), (2, 9, 48), (4, 1, 96), (1, 7, 129)]  # pictures, tokens, width
TIGHT = {torch.float32: 2e-6, torch.bfloat16: 8e-3}

Same = Callable[[plain.EightRows, plain.EightRows], None]


def near(found: Tensor, expected: Tensor, tolerance: float) -> None:
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    assert torch.isfinite(found.float()).all()
    difference, size = (found.double() - expected.double()).norm(), expected.double().norm()
    assert difference <= tolerance * (size + 1e-6)


def agrees(found: plain.Normed, expected: plain.Normed, dtype: torch.dtype) -> None:
    """Rows are of the precision that they are kept in; means and deviations of single precision, for a row's size."""
    near(found.y, expected.y, TIGHT[dtype])
    near(found.inverse, expected.inverse, TIGHT[torch.float32])
    assert ((found.mean - expected.mean).abs() * expected.inverse).max() <= TIGHT[torch.float32]


def rows(shape: tuple[int, int, int], dtype: torch.dtype, device: torch.device, count: int) -> list[Tensor]:
    batch, tokens, width = shape
    return [torch.randn(batch * tokens, width, device=device).to(dtype) for _ in range(count)]


def values(width: int, device: torch.device) -> tuple[Tensor, Tensor]:
    return torch.randn(width, device=device), torch.randn(width, device=device)


@pytest.mark.parametrize("dtype", TIGHT)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kept", [True, False])
def test_forward(shape: tuple[int, int, int], kept: bool, dtype: torch.dtype, device: torch.device) -> None:
    x, branch = rows(shape, dtype, device, 2)
    weight, bias = values(shape[2], device)
    keep = torch.rand(shape[0], device=device) if kept else None
    shift = torch.randn(shape[2], device=device) if kept else None
    normed = norm_triton.norm(x, weight, bias, 1e-6, shift)
    assert normed.total is x
    agrees(normed, plain.norm(x, weight, bias, 1e-6, shift), dtype)
    summed = norm_triton.add_norm(x, branch, keep, weight, bias, 1e-6)
    near(summed.total, plain.add(x, branch, keep), TIGHT[dtype])
    agrees(summed, plain.norm(summed.total, weight, bias, 1e-6), dtype)  # of the sum as this kernel rounded it
    near(norm_triton.add(x, branch, keep), plain.add(x, branch, keep), TIGHT[dtype])


@pytest.mark.parametrize("dtype", TIGHT)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kept", [True, False])
def test_backward(shape: tuple[int, int, int], kept: bool, dtype: torch.dtype, device: torch.device) -> None:
    x, dy, past = rows(shape, dtype, device, 3)
    skip = None if shape[1] == 1 else past
    weight, bias = values(shape[2], device)
    before, after = (torch.rand(shape[0], device=device) if kept else None for _ in range(2))
    normed = plain.norm(x, weight, bias, 1e-6)
    found = norm_triton.between_backward(dy, normed, weight, skip, before, after)
    expected = plain.between_backward(dy, normed, weight, skip, before, after)
    alone = norm_triton.norm_backward(dy, normed, weight, skip)
    for each, other in zip((*found, *alone), (*expected, *expected[:3]), strict=True):
        near(each, other, 2 * TIGHT[dtype])


@pytest.mark.parametrize("branched", [True, False])
def test_eight_bits(branched: bool, device: torch.device, same_eight: Same) -> None:
    x, branch = rows((3, 5, 64), torch.bfloat16, device, 2)
    (weight, bias), shift = values(64, device), torch.randn(64, device=device)
    stream = x.clone()
    found = norm_triton.norm_eight(stream, branch if branched else None, shift, weight, bias, 1e-6)
    near(stream, x + branch if branched else x, 8e-3)
    same_eight(found, plain.norm_eight(stream, None, shift, weight, bias, 1e-6))  # of the sum as it was rounded
    again = x.clone()
    plain.norm_eight(again, branch if branched else None, shift, weight, bias, 1e-6)
    near(stream, again, 8e-3)


@pytest.mark.parametrize("dtype", TIGHT)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kept", [True, False])
def test_both_are_the_usual_one_and_it_in_eight_bits(
    shape: tuple[int, int, int], kept: bool, dtype: torch.dtype, device: torch.device, same_eight: Same
) -> None:
    x, branch = rows(shape, dtype, device, 2)
    weight, bias = values(shape[2], device)
    keep = torch.rand(shape[0], device=device) if kept else None
    normed, eight = norm_triton.norm_both(x, weight, bias, 1e-6)
    assert normed.total is x
    agrees(normed, norm_triton.norm(x, weight, bias, 1e-6), dtype)
    same_eight(eight, plain.norm_both(x, weight, bias, 1e-6)[1])
    summed, eight = norm_triton.add_norm_both(x, branch, keep, weight, bias, 1e-6)
    usual = norm_triton.add_norm(x, branch, keep, weight, bias, 1e-6)
    assert torch.equal(summed.total, usual.total)
    agrees(summed, usual, dtype)
    same_eight(eight, plain.norm_both(summed.total, weight, bias, 1e-6)[1])  # of the sum as this kernel rounded it
    expected, other = plain.add_norm_both(x, branch, keep, weight, bias, 1e-6)
    agrees(expected, plain.add_norm(x, branch, keep, weight, bias, 1e-6), dtype)
    near(other.rows.float() * other.scale, expected.y.float(), 0.05)


def test_rows_in_eight_bits_are_near_whatever_their_size(device: torch.device) -> None:
    x = torch.randn(40, 96, device=device) * torch.logspace(-25, 25, 40, device=device)[:, None]
    x[7] = 0.0
    found = plain.rounded(x)
    back = found.rows.float() * found.scale
    assert ((back - x).norm(dim=1) <= 0.04 * x.norm(dim=1)).all()
    assert (found.rows.float().abs().amax(1) == 448).sum() == 39


def test_the_twin_is_the_gradient_that_autograd_finds() -> None:
    x, branch, dy, skip = (torch.randn(6, 16, dtype=torch.float64, requires_grad=True) for _ in range(4))
    weight, bias = (torch.randn(16, dtype=torch.float64, requires_grad=True) for _ in range(2))
    keep = torch.rand(3, dtype=torch.float64)
    total = x + branch * keep.repeat_interleave(2)[:, None]
    y = F.layer_norm(total, (16,), weight, bias, 1e-5)
    expected = torch.autograd.grad((y * dy).sum() + (total * skip).sum(), (x, branch, weight, bias))
    normed = plain.add_norm(x, branch, keep, weight, bias, 1e-5)
    torch.testing.assert_close(normed.y, y)
    found = plain.between_backward(dy, normed, weight, skip, keep, None)
    torch.testing.assert_close(found.x, expected[0])
    torch.testing.assert_close(found.branched, expected[1].sum(0))
    torch.testing.assert_close((found.weight, found.bias), expected[2:])
    torch.testing.assert_close(found.skipped, skip.sum(0))
