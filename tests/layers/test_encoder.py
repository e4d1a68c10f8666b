"""Eq. 2-4 for all layers: traced, normed once, and looked into only where one asks."""

import pytest
import torch
from torch import Tensor, nn

from patchwords.errors import UsageError
from patchwords.layers import attention as attention_layer
from patchwords.layers.attention import Attention, NoOffsets
from patchwords.layers.block import Block
from patchwords.layers.encoder import AtStem, Encoder, GlobalEncoder
from patchwords.layers.mlp import MLP
from patchwords.layers.tokens import Tokens

WIDTH = 8


@pytest.fixture
def encoder() -> Encoder:
    blocks = [
        Block(Attention(WIDTH, 2, "qkv", NoOffsets(), 0.0, 0.0), MLP(WIDTH, 12, "gelu", 0.0), 1e-6, None, 0.0)
        for _ in range(4)
    ]
    return GlobalEncoder(blocks, AtStem(), nn.LayerNorm(WIDTH))


@pytest.fixture
def tokens() -> Tokens:
    return Tokens(torch.randn(2, 7, WIDTH), 1, (2, 3))


def test_the_trace_is_the_sequence_after_each_block(encoder: Encoder, tokens: Tokens) -> None:
    x = tokens.x
    traced = list(encoder.trace(tokens))
    assert len(traced) == 4
    for block, after in zip(encoder.blocks, traced, strict=True):
        x = block(x)
        assert torch.equal(after.x, x)
        assert (after.prefix, after.grid) == (1, (2, 3))


def test_the_encoder_ends_with_the_norm(encoder: Encoder, tokens: Tokens) -> None:
    *_, last = encoder.trace(tokens)
    assert torch.equal(encoder(tokens).x, encoder.norm(last.x))
    assert not torch.equal(encoder(tokens).x, last.x)


def test_weights_come_in_the_order_they_were_asked_for(encoder: Encoder, tokens: Tokens) -> None:
    z1, z2, z3, _ = encoder.trace(tokens)
    inputs = [tokens, z1, z2, z3]
    expected = [encoder.blocks[layer].weights(inputs[layer].x) for layer in (2, 0, 3)]
    for found, wanted in zip(encoder.attention(tokens, at=[3, 1, 4]), expected, strict=True):
        assert found.shape == (2, 2, 7, 7)
        assert torch.equal(found, wanted)


def test_weights_of_other_layers_are_not_computed(
    encoder: Encoder, tokens: Tokens, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[int, ...]] = []
    plain = attention_layer.weights

    def counting(q: Tensor, k: Tensor, bias: Tensor | None = None) -> Tensor:
        calls.append(tuple(q.shape))
        return plain(q, k, bias)

    monkeypatch.setattr(attention_layer, "weights", counting)
    encoder(tokens)
    assert calls == []
    assert len(encoder.attention(tokens, at=[2, 4])) == len(calls) == 2
    assert encoder.attention(tokens, at=[]) == []
    assert len(calls) == 2


@pytest.mark.parametrize("number", [0, -1, 5])
def test_a_layer_that_is_not_there_is_refused(encoder: Encoder, tokens: Tokens, number: int) -> None:
    with pytest.raises(UsageError, match=f"there is no layer {number}: layers are numbered 1 to 4"):
        encoder.attention(tokens, at=[1, number])
