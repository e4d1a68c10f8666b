"""Weights in pieces: together they are all of them, each once, and no piece is larger than it may be."""

import pytest
import torch
from torch import Tensor, nn

from patchwords.layers.attention import Attention, NoOffsets
from patchwords.layers.bias import Bias
from patchwords.layers.block import Block, Layer, StreamNormBlock
from patchwords.layers.look import PIECE, Look
from patchwords.layers.mlp import MLP
from patchwords.layers.offsets import Offsets
from patchwords.layers.tokens import Tokens

WIDTH, HEADS, TOKENS, BATCH = 12, 3, 7, 2


@pytest.fixture(params=["plain", "relative", "relative-bias", "stream-norm"])
def look(request: pytest.FixtureRequest) -> Look:
    kinds = {"relative": Offsets(TOKENS, WIDTH // HEADS, std=1.0), "relative-bias": Bias((2, 3), 1, HEADS)}
    offsets = kinds.get(request.param, NoOffsets())
    kind: type[Layer] = StreamNormBlock if request.param == "stream-norm" else Block
    block = kind(Attention(WIDTH, HEADS, "qkv", offsets, 0.0, 0.0), MLP(WIDTH, 16, "gelu", 0.0), 1e-6, None, 0.0)
    for parameter in block.parameters():
        nn.init.normal_(parameter)
    return Look(block.double(), Tokens(torch.randn(BATCH, TOKENS, WIDTH, dtype=torch.float64), 1, (2, 3)))


@pytest.mark.parametrize("most", [1, BATCH * TOKENS, 40, BATCH * TOKENS**2, 2 * BATCH * TOKENS**2, PIECE])
def test_pieces_are_all_of_the_weights_each_once(look: Look, most: int) -> None:
    whole, seen = torch.zeros(BATCH, HEADS, TOKENS, TOKENS, dtype=torch.float64), torch.zeros(HEADS, TOKENS)
    for heads, rows, weights in look.pieces(most):
        whole[:, heads, rows] = weights
        seen[heads, rows] += 1
    assert (seen == 1).all()
    torch.testing.assert_close(whole, look.weights())


@pytest.mark.parametrize("most", [BATCH * TOKENS, 40, BATCH * TOKENS**2, 2 * BATCH * TOKENS**2])
def test_no_piece_is_larger_than_asked_for(look: Look, most: int) -> None:
    sizes = [weights.numel() for _, _, weights in look.pieces(most)]
    assert max(sizes) <= most
    assert sum(sizes) == BATCH * HEADS * TOKENS**2


def test_the_smallest_piece_is_one_row_of_one_head(look: Look) -> None:
    assert {weights.shape for _, _, weights in look.pieces(1)} == {(BATCH, 1, 1, TOKENS)}


def test_offsets_are_made_for_the_rows_of_a_piece_alone() -> None:
    offsets = Offsets(TOKENS, 4, std=1.0)
    q = torch.randn(BATCH, HEADS, TOKENS, 4)
    assert torch.equal(offsets(q, rows=slice(2, 5)), offsets(q)[:, :, 2:5])


def test_queries_and_keys_are_made_once_for_all_pieces(look: Look) -> None:
    calls = []
    look.block.attention.qkv.register_forward_hook(lambda *_: calls.append(1))
    assert len(list(look.pieces(1))) == HEADS * TOKENS
    assert len(calls) == 1


def test_each_row_sums_to_one(look: Look) -> None:
    weights = look.weights(slice(1, 3), slice(2, 6))
    assert weights.shape == (BATCH, 2, 4, TOKENS)
    torch.testing.assert_close(weights.sum(-1), torch.ones(BATCH, 2, 4, dtype=torch.float64))


def test_these_are_the_weights_that_the_block_uses(look: Look) -> None:
    block, x = look.block, look.tokens.x
    _, _, v = block.attention.split(block.norm1(x))
    mixed: Tensor = block.attention.out((look.weights() @ v).transpose(1, 2).flatten(2))
    torch.testing.assert_close(block.attention(block.norm1(x)), mixed)
