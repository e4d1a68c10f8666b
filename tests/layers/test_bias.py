"""Learned logits for offsets: which entry each pair of tokens gets, and one table that many blocks use."""

import copy

import pytest
import torch
from torch import nn

from patchwords.errors import UsageError
from patchwords.layers.bias import Bias, BorrowedBias, SharedBias
from patchwords.layers.tokens import Tokens

GRID, HEADS, TOKENS = (2, 3), 4, 7


@pytest.fixture
def bias() -> Bias:
    module = Bias(GRID, 1, HEADS)
    nn.init.normal_(module.table)
    return module


def queries(tokens: int = TOKENS) -> torch.Tensor:
    return torch.randn(2, HEADS, tokens, 5)


def test_a_pair_of_patches_gets_the_entry_of_its_offset_and_the_class_token_its_own(bias: Bias) -> None:
    added = bias(queries())
    assert added.shape == (1, HEADS, TOKENS, TOKENS)
    patches = [(row, col) for row in range(2) for col in range(3)]
    for i, (row, col) in enumerate(patches, 1):
        for j, (other_row, other_col) in enumerate(patches, 1):
            entry = (row - other_row + 1) * 5 + col - other_col + 2
            assert torch.equal(added[0, :, i, j], bias.table[entry])
        assert torch.equal(added[0, :, 0, i], bias.table[-3])
        assert torch.equal(added[0, :, i, 0], bias.table[-2])
    assert torch.equal(added[0, :, 0, 0], bias.table[-1])


def test_it_starts_as_nothing() -> None:
    assert not Bias(GRID, 1, HEADS).table.any()


def test_heads_and_rows_can_be_asked_for_alone(bias: Bias) -> None:
    whole = bias(queries())
    assert torch.equal(bias(queries(), slice(1, 3), slice(2, 6)), whole[:, 1:3, 2:6])
    assert torch.equal(bias(queries(), slice(1, 3)), whole[:, 1:3])


def test_what_is_added_lies_as_the_kernels_read_it(bias: Bias) -> None:
    assert bias(queries()).is_contiguous()


def test_other_tokens_than_those_of_the_grid_are_refused(bias: Bias) -> None:
    with pytest.raises(UsageError, match="5 tokens came, the biases know 7"):
        bias(queries(5))


def test_patches_alone_have_a_table_without_the_class_tokens_entries() -> None:
    bias = Bias(GRID, 0, HEADS)
    assert bias.table.shape == (15, HEADS)
    assert bias(queries(6)).shape == (1, HEADS, 6, 6)


def test_every_entry_learns_and_the_index_is_no_weight(bias: Bias) -> None:
    (bias(queries()) * torch.randn(1, HEADS, TOKENS, TOKENS)).sum().backward()
    assert bias.table.grad is not None
    assert (bias.table.grad != 0).all()
    assert set(bias.state_dict()) == {"table"}


def test_built_without_memory_it_still_knows_its_index(bias: Bias) -> None:
    with torch.device("meta"):
        blank = Bias(GRID, 1, HEADS)
    assert blank.table.is_meta
    blank.load_state_dict(bias.state_dict(), assign=True)
    assert torch.equal(blank(queries()), bias(queries()))


class Two(nn.Module):
    """Two borrowers and, after them, the lender."""

    def __init__(self, bias: Bias):
        super().__init__()
        self.blocks = nn.ModuleList([BorrowedBias(bias), BorrowedBias(bias)])
        self.position = SharedBias(bias, GRID)

    def forward(self, q: torch.Tensor) -> torch.Tensor:
        return self.blocks[0](q) + 2 * self.blocks[1](q)


def test_a_shared_table_is_one_parameter_that_all_blocks_read(bias: Bias) -> None:
    both = Two(bias)
    assert set(both.state_dict()) == {"position.bias.table"}
    assert len(list(both.parameters())) == 1
    torch.testing.assert_close(both(queries()), 3 * bias(queries()))
    both(queries()).sum().backward()
    assert bias.table.grad is not None
    torch.testing.assert_close(bias.table.grad.sum(0), torch.full((HEADS,), 3.0 * TOKENS**2))


def test_a_copy_reads_its_own_table(bias: Bias) -> None:
    both = Two(bias)
    other = copy.deepcopy(both)
    with torch.no_grad():
        other.position.bias.table.zero_()
    assert not other(queries()).any()
    assert both(queries()).all()


def test_a_table_that_is_put_in_or_moved_is_the_one_that_is_read(bias: Bias) -> None:
    both = Two(bias)
    both.load_state_dict({"position.bias.table": torch.ones_like(bias.table)}, assign=True)
    assert (both(queries()) == 3).all()
    assert both.double()(queries()).dtype == torch.float64


def test_a_shared_table_adds_nothing_to_tokens_and_lets_only_its_grid_pass(bias: Bias) -> None:
    tokens = Tokens(torch.randn(2, TOKENS, 8), 1, GRID)
    assert SharedBias(bias, GRID)(tokens, 0) is tokens
    with pytest.raises(UsageError, match="3x2 patches, the positions are for 2x3"):
        SharedBias(bias, GRID)(tokens._replace(grid=(3, 2)), 0)
