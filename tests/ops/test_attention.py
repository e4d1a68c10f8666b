"""Eq. 6 and 7 by hand: the fused kernel and the weights for inspection are the same attention."""

import math

import pytest
import torch
from torch import Tensor

from patchwords.ops.attention import attention, weights

BATCH, HEADS, TOKENS, WIDTH = 2, 3, 5, 4


@pytest.fixture
def qkv() -> tuple[Tensor, Tensor, Tensor]:
    q, k, v = torch.randn(3, BATCH, HEADS, TOKENS, WIDTH, dtype=torch.float64).unbind(0)
    return q, k, v


@pytest.fixture(params=["no bias", "bias"])
def bias(request: pytest.FixtureRequest) -> Tensor | None:
    values = torch.randn(BATCH, HEADS, TOKENS, TOKENS, dtype=torch.float64)
    return values if request.param == "bias" else None


def by_hand(q: Tensor, k: Tensor, bias: Tensor | None) -> Tensor:
    """softmax(q kᵀ / sqrt(Dh) + bias), one number at a time."""
    rows = torch.empty(BATCH, HEADS, TOKENS, TOKENS, dtype=torch.float64)
    for b in range(BATCH):
        for h in range(HEADS):
            for i in range(TOKENS):
                exponentials = []
                for j in range(TOKENS):
                    dot = sum(q[b, h, i, d].item() * k[b, h, j, d].item() for d in range(WIDTH))
                    logit = dot / math.sqrt(WIDTH) + (0.0 if bias is None else bias[b, h, i, j].item())
                    exponentials.append(math.exp(logit))
                rows[b, h, i] = torch.tensor(exponentials, dtype=torch.float64) / sum(exponentials)
    return rows


def test_each_row_of_weights_sums_to_one(qkv: tuple[Tensor, ...], bias: Tensor | None) -> None:
    q, k, _ = qkv
    rows = weights(q, k, bias)
    assert (rows > 0).all()
    torch.testing.assert_close(rows.sum(-1), torch.ones(BATCH, HEADS, TOKENS, dtype=torch.float64))


def test_weights_are_the_softmax_written_by_hand(qkv: tuple[Tensor, ...], bias: Tensor | None) -> None:
    q, k, _ = qkv
    torch.testing.assert_close(weights(q, k, bias), by_hand(q, k, bias), rtol=1e-12, atol=1e-12)


def test_the_fused_kernel_gives_weights_times_values(qkv: tuple[Tensor, ...], bias: Tensor | None) -> None:
    q, k, v = qkv
    torch.testing.assert_close(attention(q, k, v, bias), by_hand(q, k, bias) @ v, rtol=1e-12, atol=1e-12)


def test_fewer_queries_than_keys_are_fine(qkv: tuple[Tensor, ...]) -> None:
    q, k, v = qkv
    probe = q[:, :, :1]
    assert weights(probe, k).shape == (BATCH, HEADS, 1, TOKENS)
    torch.testing.assert_close(attention(probe, k, v), weights(probe, k) @ v)


def test_large_logits_overflow_nothing(qkv: tuple[Tensor, ...]) -> None:
    q, k, v = (tensor.float() * 1e3 for tensor in qkv)
    assert weights(q, k).isfinite().all()
    assert attention(q, k, v).isfinite().all()


def test_dropout_keeps_the_expectation(qkv: tuple[Tensor, ...]) -> None:
    q, k, v = (tensor[:1, :1].float().expand(4000, 1, -1, -1) for tensor in qkv)
    mean = attention(q, k, v, dropout=0.25).mean(0)
    torch.testing.assert_close(mean, attention(q[:1], k[:1], v[:1])[0], rtol=0, atol=0.05)
    assert not torch.equal(attention(q, k, v, dropout=0.25), attention(q, k, v))
