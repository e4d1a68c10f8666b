"""Which entry of a table of biases belongs to two places."""

import pytest
import torch

from patchwords.ops.offsets import entries, offsets, sequence_entries, sequence_offsets


@pytest.mark.parametrize("grid", [(1, 1), (1, 4), (3, 3), (2, 5), (5, 2)])
def test_an_entry_is_the_raster_index_of_the_offset_between_query_and_key(grid: tuple[int, int]) -> None:
    rows, cols = grid
    index = offsets(grid)
    assert index.shape == (rows * cols, rows * cols)
    for query in range(rows * cols):
        for key in range(rows * cols):
            down = query // cols - key // cols
            right = query % cols - key % cols
            assert index[query, key] == (down + rows - 1) * (2 * cols - 1) + right + cols - 1


@pytest.mark.parametrize("grid", [(3, 3), (2, 5)])
def test_every_offset_has_its_entry(grid: tuple[int, int]) -> None:
    assert set(offsets(grid).flatten().tolist()) == set(range(entries(grid)))


def test_the_index_is_on_the_host_where_a_model_is_built_without_memory() -> None:
    with torch.device("meta"):
        assert offsets((2, 3)).device.type == "cpu"


@pytest.mark.parametrize("special", [1, 3])
@pytest.mark.parametrize("grid", [(3, 3), (2, 5)])
def test_what_has_no_place_has_the_three_entries_after_all_offsets(grid: tuple[int, int], special: int) -> None:
    index, first = sequence_offsets(grid, special), entries(grid)
    assert torch.equal(index[special:, special:], offsets(grid))
    assert (index[:special, special:] == first).all()  # a class token that asks a patch
    assert (index[special:, :special] == first + 1).all()
    assert (index[:special, :special] == first + 2).all()
    assert sequence_entries(grid, special) == first + 3


def test_patches_alone_need_no_other_entries() -> None:
    assert torch.equal(sequence_offsets((2, 3), 0), offsets((2, 3)))
    assert sequence_entries((2, 3), 0) == entries((2, 3))
