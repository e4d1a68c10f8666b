"""Attention within windows: the plain twins against the layer and autograd, Triton's kernels against the twins."""

import pytest
import torch
from torch import Tensor

from patchwords.layers.attention import Attention
from patchwords.layers.mlp import MLP
from patchwords.layers.window import WindowBlock, WindowOffsets
from patchwords.speed.kernels.windowed import WindowGradients, taken, windowed, windowed_backward

windowed_triton = pytest.importorskip("patchwords.speed.kernels.windowed_triton", reason="Triton is not installed")

Case = tuple[int, int, int, int, int, tuple[int, int], tuple[int, int]]
# batch, rows, cols, heads, width of a head, window, shift; some have one window down, or across, or both
MAPS: list[Case] = [
    (2, 6, 9, 2, 16, (3, 3), (0, 0)),
    (2, 6, 9, 2, 16, (3, 3), (1, 1)),
    (1, 14, 7, 1, 32, (7, 7), (3, 3)),
    (3, 4, 12, 3, 16, (4, 3), (2, 1)),
    (1, 8, 8, 2, 32, (8, 8), (4, 4)),
]


def drawn(case: Case, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """qkv, bias, and the gradient of the output."""
    batch, rows, cols, heads, width, window, _ = case
    tokens = window[0] * window[1]
    qkv = torch.randn(batch, rows, cols, 3 * heads * width, device=device).to(dtype)
    bias = torch.randn(heads, tokens, tokens, device=device)
    return qkv, bias, torch.randn(batch, rows, cols, heads * width, device=device).to(dtype)


def precisions(device: torch.device) -> dict[torch.dtype, float]:
    """What the kernels are tested in, and how near: interpreted, products of bfloat16 are not known."""
    if device.type == "cuda":
        return {torch.bfloat16: 2e-2, torch.float16: 3e-3}
    return {torch.float32: 1e-5, torch.float16: 3e-3}


def near(ours: Tensor, wanted: Tensor, tolerance: float) -> None:
    """Within a share of the largest number there is."""
    assert ours.shape == wanted.shape
    assert (ours.double() - wanted).abs().max() <= tolerance * wanted.abs().max().clamp(min=1.0)


def agree(case: Case, dtype: torch.dtype, device: torch.device, tolerance: float) -> None:
    qkv, bias, grad = drawn(case, dtype, device)
    window, shift = case[5:]
    out = windowed_triton.windowed(qkv, bias, window, shift)
    found = windowed_triton.windowed_backward(grad, qkv, bias, window, shift)
    assert (out.dtype, found.qkv.dtype, found.bias.dtype) == (dtype, dtype, torch.float32)
    near(out, windowed(qkv.double(), bias.double(), window, shift), tolerance)
    wanted = windowed_backward(grad.double(), qkv.double(), bias.double(), window, shift)
    for name in WindowGradients._fields:
        near(getattr(found, name), getattr(wanted, name), tolerance)


@pytest.mark.parametrize("case", MAPS)
def test_the_twin_computes_what_the_layer_does(case: Case) -> None:
    batch, rows, cols, heads, width, window, shift = case
    offsets = WindowOffsets(window, shift, heads)
    attention = Attention(heads * width, heads, "qkv", offsets, 0.0, 0.0)
    block = WindowBlock(attention, MLP(heads * width, 8, "gelu", 0.0), window, shift, 1e-5, 0.0)
    x = torch.randn(batch, rows, cols, heads * width)
    with torch.no_grad():
        bias = offsets.table[offsets.index].permute(2, 0, 1)
        ours = attention.out(windowed(attention.qkv(x), bias, window, shift))
        torch.testing.assert_close(ours, block.within(x), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("case", MAPS)
def test_the_gradients_of_the_twin_are_those_of_autograd(case: Case, device: torch.device) -> None:
    qkv, bias, grad = drawn(case, torch.float64, device)
    bias, (window, shift) = bias.double(), case[5:]
    qkv.requires_grad_()
    bias.requires_grad_()
    dqkv, dbias = torch.autograd.grad(windowed(qkv, bias, window, shift), (qkv, bias), grad)
    found = windowed_backward(grad, qkv.detach(), bias.detach(), window, shift)
    torch.testing.assert_close(found.qkv, dqkv)
    torch.testing.assert_close(found.sums, dqkv.sum((0, 1, 2)))
    torch.testing.assert_close(found.bias, dbias)


def test_what_the_shift_has_brought_together_is_kept_apart(device: torch.device) -> None:
    qkv, bias, _ = drawn((1, 6, 6, 1, 16, (3, 3), (1, 1)), torch.float16, device)
    other = qkv.clone()
    other[:, 0] = torch.randn_like(other[:, 0])  # the shift brings the first row below the last two
    for within in (windowed, windowed_triton.windowed):
        before, after = (within(x, bias, (3, 3), (1, 1)) for x in (qkv, other))
        assert torch.equal(before[:, 4:], after[:, 4:])
        assert not torch.equal(before[:, 0], after[:, 0])


@pytest.mark.parametrize("case", MAPS)
def test_the_kernels_compute_what_the_twins_do(case: Case, device: torch.device) -> None:
    for dtype, tolerance in precisions(device).items():
        agree(case, dtype, device, tolerance)


@pytest.mark.parametrize("programs", [1, 5])
def test_however_many_windows_a_program_does(
    programs: int, device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(windowed_triton, "PROGRAMS", programs)
    agree(MAPS[1], torch.float16, device, 3e-3)


def test_the_same_bits_twice(device: torch.device) -> None:
    qkv, bias, grad = drawn(MAPS[1], torch.float16, device)
    first, second = (windowed_triton.windowed_backward(grad, qkv, bias, (3, 3), (1, 1)) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_what_the_kernels_take() -> None:
    assert taken(49, 32)
    assert taken(64, 16)
    assert not taken(144, 32)
    assert not taken(49, 24)
