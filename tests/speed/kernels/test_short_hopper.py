"""Attention with products on their way, against its plain twin; and what is done where that cannot be."""

import logging
from typing import Any, get_args

import pytest
import torch
from torch import Tensor

from patchwords.speed.kernels import short as plain
from patchwords.speed.kernels.short import ShortGradients

short_hopper = pytest.importorskip("patchwords.speed.kernels.short_hopper", reason="Triton is not installed")
short_gluon = pytest.importorskip("patchwords.speed.kernels.short_gluon", reason="Triton is there without Gluon")

HOPPER = torch.cuda.is_available() and torch.cuda.get_device_capability() == (9, 0)
# batch, tokens, heads: whole blocks of 64, a few tokens beside them, a block that is not full
SEQUENCES = [(2, 197, 3), (1, 208, 2), (3, 192, 1), (1, 100, 2), (2, 65, 2), (5, 64, 1), (1, 128, 2), (2, 129, 1)]
Shape = tuple[int, int, int]
WORKS = get_args(short_hopper.Work)
NAMES = {"forward": "short", "forward in eight bits": "short_eight", "backward": "short_backward"}
PLACE = torch.device("cpu")


@pytest.fixture(autouse=True)
def untried() -> None:
    short_hopper.trial.cache_clear()


def apart(found: Tensor, expected: Tensor) -> float:
    found, expected = found.double(), expected.double()
    return ((found - expected).norm() / expected.norm()).item()


def drawn(shape: Shape, dtype: torch.dtype = torch.bfloat16) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """qkv, the gradient of the output, the output and its totals."""
    batch, tokens, heads = shape
    qkv = (2 * torch.randn(batch, tokens, 3 * 64 * heads, device="cuda")).to(dtype)
    grad = torch.randn(batch, tokens, 64 * heads, device="cuda").to(dtype)
    out, total = plain.short(qkv.double(), heads)
    return qkv, grad, out.to(dtype).contiguous(), total.float().contiguous()


@pytest.mark.skipif(not HOPPER, reason="there is no Hopper")
class TestOnAHopper:
    @pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
    @pytest.mark.parametrize("shape", SEQUENCES)
    def test_the_kernels_compute_what_the_twins_do(self, shape: Shape, dtype: torch.dtype) -> None:
        qkv, grad, out, total = drawn(shape, dtype)
        found = short_gluon.short(qkv, shape[2])
        expected = plain.short(qkv.double(), shape[2])
        assert (found.out.dtype, found.total.dtype) == (dtype, torch.float32)
        assert apart(found.out, expected.out) < 0.01
        assert apart(found.total, expected.total) < 1e-5
        back = short_gluon.short_backward(grad, qkv, out, total, shape[2])
        wanted = plain.short_backward(grad.double(), qkv.double(), out.double(), total.double(), shape[2])
        assert back.qkv.dtype == dtype
        for part, other in zip(back.qkv.chunk(3, -1), wanted.qkv.chunk(3, -1), strict=True):
            assert apart(part, other) < 0.01
        assert apart(back.sums, wanted.sums) < 0.01

    @pytest.mark.parametrize("shape", SEQUENCES)
    def test_the_output_in_eight_bits(self, shape: Shape) -> None:
        qkv, *_ = drawn(shape)
        factors = 20.0 * torch.rand(64 * shape[2], device="cuda") + 1.0
        found, expected = (each.short_eight(qkv, shape[2], factors) for each in (short_gluon, plain))
        assert found.dtype == expected.dtype
        assert apart(found, expected) < 0.02  # of what lies between two numbers, rounding before decides some

    def test_large_and_small_logits_stay_finite(self) -> None:
        qkv, grad, *_ = drawn((2, 70, 1))
        qkv[0, :, :128] *= 12.0  # logits of hundreds
        qkv[1, :, :64], qkv[1, :, 64:128] = 10.0, -5.0  # all logits of the second picture are far below zero
        out, total = short_gluon.short(qkv, 1)
        assert total[1].max() < -250
        expected = plain.short(qkv.double(), 1)
        assert apart(out, expected.out) < 0.01
        assert apart(total, expected.total) < 1e-5
        # From the output as it was rounded: what rounding took from it, such logits make hundreds of times larger.
        found = short_gluon.short_backward(grad, qkv, out, total, 1)
        wanted = plain.short_backward(grad.double(), qkv.double(), out.double(), total.double(), 1)
        assert (found.qkv - wanted.qkv).abs().max() <= 0.02 * wanted.qkv.abs().max()

    def test_the_same_bits_twice(self) -> None:
        qkv, grad, out, total = drawn((64, 197, 3))
        first, second = (short_gluon.short_backward(grad, qkv, out, total, 3) for _ in range(2))
        assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))

    def test_many_sequences_are_taken(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def never(*given: Any) -> None:
            raise AssertionError("Triton's was asked")

        for name in NAMES.values():
            monkeypatch.setattr(short_hopper.short_triton, name, never)
        qkv, grad, *_ = drawn((64, 197, 3))
        out, total = short_hopper.short(qkv, 3)
        short_hopper.short_backward(grad, qkv, out, total, 3)
        short_hopper.short_eight(qkv, 3, torch.ones(192, device="cuda"))

    @pytest.mark.parametrize("shape", [(64, 50, 3), (64, 209, 3), (2, 197, 3)])
    def test_other_sequences_are_not(self, shape: Shape) -> None:
        assert not any(short_hopper.taken(work, drawn(shape)[0], shape[2]) for work in WORKS)


def by_the_twins(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES.values():
        monkeypatch.setattr(short_gluon, name, getattr(plain, name))


@pytest.mark.parametrize("work", WORKS)
def test_a_kernel_that_is_right_passes_its_trial(
    work: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    by_the_twins(monkeypatch)
    before = torch.random.get_rng_state()
    assert short_hopper.trial(work, PLACE, torch.float16, 67, 2).passed()
    assert torch.equal(torch.random.get_rng_state(), before)
    assert not caplog.records


@pytest.mark.parametrize("wrong", ["scaled", "swapped", "nothing", "its sums"])
def test_a_way_back_that_is_wrong_is_said_and_not_used(
    wrong: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def kernel(*given: Any) -> ShortGradients:
        dqkv, sums = plain.short_backward(*given)
        q, k, v = dqkv.chunk(3, -1)
        other = {
            "scaled": torch.cat([q, k, 1.02 * v], -1),
            "swapped": torch.cat([q, k, v.flip(1)], -1),
            "nothing": torch.full_like(dqkv, torch.nan),
        }
        return ShortGradients(other.get(wrong, dqkv), sums.flip(0) if wrong == "its sums" else sums)

    monkeypatch.setattr(short_gluon, "short_backward", kernel)
    with caplog.at_level(logging.WARNING, "patchwords"):
        assert not short_hopper.trial("backward", PLACE, torch.float16, 67, 2).passed()
        assert not short_hopper.trial("backward", PLACE, torch.float16, 67, 2).passed()
    (record,) = caplog.records  # once
    assert "Triton's kernel is used and not Gluon's" in record.message
    assert "wrong by" in record.message


@pytest.mark.parametrize("work", ["forward", "forward in eight bits"])
def test_a_way_forth_that_is_wrong_is_not_used(work: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def one_head_further(qkv: Tensor, heads: int, *given: Any) -> Any:
        return getattr(plain, NAMES[work])(qkv.roll(64, -1), heads, *given)

    monkeypatch.setattr(short_gluon, NAMES[work], one_head_further)
    assert not short_hopper.trial(work, PLACE, torch.float16, 67, 2).passed()


@pytest.mark.parametrize("work", WORKS)
def test_a_kernel_that_cannot_be_made_is_said_and_not_used(
    work: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def kernel(*given: Any) -> None:
        raise AttributeError("at 3:4:\n    memory.index(0)\nno such word")

    monkeypatch.setattr(short_gluon, NAMES[work], kernel)
    with caplog.at_level(logging.WARNING, "patchwords"):
        assert not short_hopper.trial(work, PLACE, torch.float16, 67, 2).passed()
    assert "AttributeError: no such word" in caplog.text


def test_without_a_hopper_all_is_tritons(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    for name in NAMES.values():
        monkeypatch.setattr(short_hopper.short_triton, name, lambda *given, name=name: asked.append(name))
    grad, qkv = torch.zeros(200, 197, 64, dtype=torch.bfloat16), torch.zeros(200, 197, 192, dtype=torch.bfloat16)
    short_hopper.short(qkv, 1)
    short_hopper.short_eight(qkv, 1, torch.ones(64))
    short_hopper.short_backward(grad, qkv, grad, torch.zeros(200, 1, 197), 1)
    assert asked == ["short", "short_eight", "short_backward"]
