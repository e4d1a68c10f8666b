"""Eq. 4 and App. D.3: one vector from the sequence, three ways."""

import math

import pytest
import torch
from torch import nn

from patchwords.layers.pool import Attend, BothTokens, ClassToken, Mean, Pool
from patchwords.layers.tokens import Tokens

WIDTH, HEADS, HIDDEN, EPSILON = 8, 2, 12, 1e-3


@pytest.fixture
def tokens() -> Tokens:
    return Tokens(torch.randn(2, 2 + 6, WIDTH, dtype=torch.float64), 2, (2, 3))


def built(kind: ClassToken | Mean | Attend) -> nn.Module:
    pool = kind.build(WIDTH, HEADS, HIDDEN, "gelu", EPSILON).double()
    for parameter in pool.parameters():
        nn.init.normal_(parameter)
    return pool


def norm(x: torch.Tensor, layer: nn.LayerNorm) -> torch.Tensor:
    variance, mean = torch.var_mean(x, -1, correction=0, keepdim=True)
    return (x - mean) / torch.sqrt(variance + EPSILON) * layer.weight + layer.bias


def test_the_class_pool_takes_the_first_token(tokens: Tokens) -> None:
    assert torch.equal(built(ClassToken())(tokens), tokens.x[:, 0])


def test_the_mean_is_over_patches_and_not_over_special_tokens(tokens: Tokens) -> None:
    torch.testing.assert_close(built(Mean())(tokens), tokens.x[:, 2:].sum(1) / 6)


def test_the_norm_may_stand_after_the_mean(tokens: Tokens) -> None:
    pool = built(Mean(norm="after"))
    torch.testing.assert_close(pool(tokens), norm(tokens.x[:, 2:].mean(1), pool.norm))


@pytest.mark.parametrize(("over", "first"), [("tokens", 0), ("patches", 2)])
def test_the_attention_pool_asks_tokens_or_patches_with_its_probe(tokens: Tokens, over: str, first: int) -> None:
    pool = built(Attend(over=over))
    asked = tokens.x[:, first:]
    keys, values = pool.kv.weight.split(WIDTH)
    key_bias, value_bias = pool.kv.bias.split(WIDTH)
    q = pool.probe[0, 0] @ pool.q.weight.T + pool.q.bias
    k, v = asked @ keys.T + key_bias, asked @ values.T + value_bias
    heads = []
    for part in (slice(0, 4), slice(4, 8)):
        weights = torch.softmax(k[..., part] @ q[part] / math.sqrt(4), -1)  # (batch, tokens)
        heads.append((weights[..., None] * v[..., part]).sum(1))
    x = torch.cat(heads, -1) @ pool.out.weight.T + pool.out.bias
    hidden = norm(x, pool.norm2) @ pool.mlp.fc1.weight.T + pool.mlp.fc1.bias
    hidden = 0.5 * hidden * (1 + torch.special.erf(hidden / math.sqrt(2)))
    torch.testing.assert_close(pool(tokens), x + hidden @ pool.mlp.fc2.weight.T + pool.mlp.fc2.bias)


@pytest.mark.parametrize("kind", [Mean(), Mean(norm="after"), Attend(), Attend(over="patches")])
def test_the_order_of_patches_does_not_matter_to_a_pool(kind: Mean | Attend, tokens: Tokens) -> None:
    pool = built(kind)
    order = torch.cat([torch.arange(2), 2 + torch.randperm(6)])
    torch.testing.assert_close(pool(tokens.replace(tokens.x[:, order])), pool(tokens))


# What a pool reads of each token.


def test_the_class_pool_reads_the_class_token_alone(tokens: Tokens) -> None:
    assert built(ClassToken()).reads(tokens).tolist() == [[1, 0, 0, 0, 0, 0, 0, 0]] * 2


def test_the_distilled_pool_takes_the_class_and_the_distillation_token_and_reads_them_alike(tokens: Tokens) -> None:
    pool = built(BothTokens())
    assert torch.equal(pool(tokens), tokens.x[:, :2])
    assert pool.reads(tokens).tolist() == [[0.5, 0.5, 0, 0, 0, 0, 0, 0]] * 2
    assert list(pool.parameters()) == []


@pytest.mark.parametrize("norm", ["before", "after"])
def test_the_mean_reads_all_patches_alike(tokens: Tokens, norm: str) -> None:
    torch.testing.assert_close(
        built(Mean(norm=norm)).reads(tokens), torch.tensor([[0, 0] + [1 / 6] * 6] * 2, dtype=torch.float64)
    )


@pytest.mark.parametrize(("over", "first"), [("tokens", 0), ("patches", 2)])
def test_the_attention_pool_reads_what_its_heads_ask_for_on_average(tokens: Tokens, over: str, first: int) -> None:
    pool = built(Attend(over=over))
    keys, _ = pool.kv.weight.split(WIDTH)
    bias, _ = pool.kv.bias.split(WIDTH)
    q = pool.probe[0, 0] @ pool.q.weight.T + pool.q.bias
    k = tokens.x[:, first:] @ keys.T + bias
    heads = [torch.softmax(k[..., part] @ q[part] / math.sqrt(4), -1) for part in (slice(0, 4), slice(4, 8))]
    reads = pool.reads(tokens)
    torch.testing.assert_close(reads[:, first:], (heads[0] + heads[1]) / 2)
    assert not reads[:, :first].any()


@pytest.mark.parametrize("kind", [ClassToken(), Mean(), Attend(), Attend(over="patches"), BothTokens()])
def test_what_a_pool_reads_sums_to_one(kind: Pool, tokens: Tokens) -> None:
    reads = built(kind).reads(tokens)
    assert reads.shape == (2, 8)
    torch.testing.assert_close(reads.sum(1), torch.ones(2, dtype=torch.float64))
