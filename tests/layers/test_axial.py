"""App. D.6: a patch sees its row, then its column, and through both everything."""

import pytest
import torch
from torch import Tensor, nn

from patchwords.errors import UsageError
from patchwords.layers.attention import Attention, NoOffsets
from patchwords.layers.axial import AxialBlock, AxialEncoder
from patchwords.layers.block import Block
from patchwords.layers.encoder import AtStem
from patchwords.layers.mlp import MLP
from patchwords.layers.tokens import Tokens

WIDTH, ROWS, COLS = 8, 4, 3


def layer(skip: float = 0.0) -> Block:
    return Block(Attention(WIDTH, 2, "qkv", NoOffsets(), 0.0, 0.0), MLP(WIDTH, 12, "gelu", 0.0), 1e-6, None, skip)


def influence(block: nn.Module, row: int, col: int) -> Tensor:
    """Which patches change when one changes: (rows, cols) of true and false."""
    x = torch.randn(1, ROWS, COLS, WIDTH)
    other = x.clone()
    other[0, row, col] += torch.randn(WIDTH)
    return (block(x) != block(other)).any(-1)[0]


def test_after_the_first_half_a_patch_has_reached_its_row_alone() -> None:
    block = AxialBlock(layer(), layer())
    block.along_cols = nn.Identity()
    reached = torch.zeros(ROWS, COLS, dtype=torch.bool)
    reached[2] = True
    assert torch.equal(influence(block, 2, 1), reached)


def test_the_second_half_alone_reaches_the_column_alone() -> None:
    block = AxialBlock(layer(), layer())
    block.along_rows = nn.Identity()
    reached = torch.zeros(ROWS, COLS, dtype=torch.bool)
    reached[:, 1] = True
    assert torch.equal(influence(block, 2, 1), reached)


def test_after_both_halves_a_patch_has_reached_all_others() -> None:
    assert influence(AxialBlock(layer(), layer()), 2, 1).all()


def test_a_block_runs_one_layer_on_each_row_and_then_another_on_each_column() -> None:
    block = AxialBlock(layer(), layer()).double()
    x = torch.randn(2, ROWS, COLS, WIDTH, dtype=torch.float64)
    rows = torch.stack([block.along_rows(x[:, row]) for row in range(ROWS)], 1)
    expected = torch.stack([block.along_cols(rows[:, :, col]) for col in range(COLS)], 2)
    torch.testing.assert_close(block(x), expected)


def test_the_encoder_runs_each_block_on_the_grid_and_norms_once() -> None:
    norm = nn.LayerNorm(WIDTH)
    encoder = AxialEncoder([AxialBlock(layer(), layer()), AxialBlock(layer(), layer())], AtStem(), norm)
    x = torch.randn(2, ROWS * COLS, WIDTH)
    first = encoder.blocks[0](x.unflatten(1, (ROWS, COLS)))
    second = encoder.blocks[1](first)
    tokens = Tokens(x, 0, (ROWS, COLS))
    traced = list(encoder.trace(tokens))
    torch.testing.assert_close(traced[0].x, first.flatten(1, 2))
    torch.testing.assert_close(traced[1].x, second.flatten(1, 2))
    torch.testing.assert_close(encoder(tokens).x, norm(second.flatten(1, 2)))


def test_weights_between_all_tokens_are_refused_because_there_are_none() -> None:
    encoder = AxialEncoder([AxialBlock(layer(), layer())], AtStem(), nn.Identity())
    with pytest.raises(UsageError, match="axial attention has no weights between all tokens"):
        encoder.attention(Tokens(torch.zeros(1, 12, WIDTH), 0, (ROWS, COLS)), at=[1])


def test_stochastic_depth_leaves_out_whole_pictures() -> None:
    block = AxialBlock(layer(skip=0.5), layer(skip=0.5)).train()
    x = torch.randn(64, 3, 4, WIDTH)
    changed = (block.along_rows(x) != x).flatten(2).any(2)  # (batch, rows)
    assert torch.equal(changed.all(1), changed.any(1))  # all rows of a picture, or none
    assert changed.any()
