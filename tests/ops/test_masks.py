"""Masks: exactly as many in every row, decided by the address alone, and of the shapes that were asked for."""

from typing import Any

import numpy as np
import pytest

from patchwords.ops import masks

BEIT: dict[str, Any] = {"grid": (14, 14), "count": 75}
SMALL: dict[str, Any] = {"grid": (4, 4), "count": 6, "least": 2, "most": 6}
INDICES = np.arange(600)
VIEWS = INDICES % 3


@pytest.mark.parametrize("count", [1, 49, 98, 147, 196])
def test_a_random_mask_hides_the_same_number_in_every_row(count: int) -> None:
    mask = masks.random(0, VIEWS, INDICES, patches=196, count=count)
    assert mask.shape == (600, 196)
    assert (mask.sum(1) == count).all()


def test_every_patch_is_hidden_as_often_as_any_other() -> None:
    mask = masks.random(1, 0, np.arange(20_000), patches=16, count=8)
    assert np.abs(mask.mean(0) - 0.5).max() < 5 * np.sqrt(0.25 / 20_000)
    pairs = (mask[:, :, None] & mask[:, None, :]).mean(0)[~np.eye(16, dtype=bool)]  # 8/16 · 7/15 of two
    assert np.abs(pairs - 7 / 30).max() < 5 * np.sqrt(7 / 30 * 23 / 30 / 20_000)


def test_the_lowest_numbers_are_chosen_in_their_order() -> None:
    numbers = np.array([[0.5, 0.1, 0.9, 0.2], [0.3, 0.3, 0.1, 0.3]])
    assert masks.lowest(numbers, 3).tolist() == [[1, 3, 0], [2, 0, 1]]


@pytest.mark.parametrize("which", [slice(0, 1), slice(7, 100, 9), slice(None, None, -1)])
@pytest.mark.parametrize("kind", ["random", "blockwise"])
def test_a_mask_is_a_function_of_its_address_whatever_else_is_in_the_batch(kind: str, which: slice) -> None:
    def made(views: Any, indices: Any, seed: int = 3) -> Any:
        if kind == "random":
            return masks.random(seed, views, indices, patches=196, count=75)
        return masks.blockwise(seed, views, indices, **BEIT).mask

    whole = made(VIEWS, INDICES)
    assert (made(VIEWS[which], INDICES[which]) == whole[which]).all()
    assert (made(VIEWS, INDICES, seed=4) != whole).any(1).mean() > 0.99
    assert (made(VIEWS + 1, INDICES) != whole).any(1).mean() > 0.99
    assert (whole[1:] != whole[:-1]).any(1).mean() > 0.99


@pytest.mark.parametrize(
    "asked",
    [
        BEIT,
        SMALL,
        {"grid": (14, 14), "count": 0},
        {"grid": (14, 14), "count": 196, "most": 196},
        {"grid": (7, 21), "count": 60},
        {"grid": (2, 2), "count": 3},  # no block fits here: all three are put one by one
        {"grid": (1, 1), "count": 1},
    ],
)
def test_blocks_hide_exactly_as_many_in_every_row(asked: dict[str, Any]) -> None:
    mask, _ = masks.blockwise(0, VIEWS, INDICES, **asked)
    assert mask.shape == (600, asked["grid"][0] * asked["grid"][1])
    assert (mask.sum(1) == asked["count"]).all()


def covered(blocks: masks.Blocks, grid: tuple[int, int]) -> tuple[Any, Any]:
    """What the blocks that were put hide, painted one after the other, and how many new patches each hid."""
    seen = np.zeros((len(blocks.put), *grid), dtype=bool)
    new = np.zeros(blocks.put.shape, dtype=int)
    for sample, turn in np.argwhere(blocks.put):
        top, left = blocks.top[sample, turn], blocks.left[sample, turn]
        block = seen[sample, top : top + blocks.rows[sample, turn], left : left + blocks.cols[sample, turn]]
        new[sample, turn] = (~block).sum()
        block[:] = True
    return seen, new


@pytest.mark.parametrize(("asked", "least", "most"), [(BEIT, 16, 75), (SMALL, 2, 6)])
def test_blocks_have_the_stated_shapes(asked: dict[str, Any], least: int, most: int) -> None:
    _, blocks = masks.blockwise(0, VIEWS, INDICES, **asked)
    _, new = covered(blocks, asked["grid"])
    left = asked["count"] - (np.cumsum(new, axis=1) - new)  # before each try
    put = blocks.put
    assert put.any(1).all()
    assert (blocks.area[put] <= most).all()
    assert (blocks.area[put] >= np.minimum(least, left[put])).all()  # smaller than that only where fewer are left
    assert (blocks.area[put] <= np.maximum(least, left[put])).all()
    assert (blocks.aspect >= 0.3).all()
    assert (blocks.aspect <= 1 / 0.3).all()
    assert np.abs(blocks.rows - np.sqrt(blocks.area * blocks.aspect)).max() <= 0.5  # whole patches
    assert np.abs(blocks.cols - np.sqrt(blocks.area / blocks.aspect)).max() <= 0.5
    assert (blocks.rows[put] < asked["grid"][0]).all()
    assert (blocks.cols[put] < asked["grid"][1]).all()
    assert (new[put] > 0).all()
    assert (new[put] <= left[put]).all()  # never more than are left


def test_a_mask_is_its_blocks_and_hardly_anything_else() -> None:
    mask, blocks = masks.blockwise(0, VIEWS, INDICES, **BEIT)
    seen, _ = covered(blocks, (14, 14))
    singles = mask & ~seen.reshape(600, -1)
    assert not (seen.reshape(600, -1) & ~mask).any()
    assert (singles.sum(1) == 75 - seen.sum((1, 2))).all()
    assert singles.sum(1).mean() < 0.3


def test_areas_are_uniform_and_aspects_log_uniform() -> None:
    _, blocks = masks.blockwise(5, 0, np.arange(20_000), **BEIT)
    areas, aspects = blocks.area[:, 0], np.log(blocks.aspect[:, 0]) / np.log(1 / 0.3)
    assert abs(areas.mean() - (16 + 75) / 2) < 5 * (75 - 16) / np.sqrt(12 * 20_000)
    assert abs(areas.std() - (75 - 16) / np.sqrt(12)) < 0.3
    assert abs(aspects.mean()) < 5 * 2 / np.sqrt(12 * 20_000)
    assert abs(aspects.std() - 2 / np.sqrt(12)) < 0.01


def test_blocks_stand_anywhere_but_the_middle_is_hidden_most() -> None:
    mask, _ = masks.blockwise(5, 0, np.arange(5000), **BEIT)
    shares = mask.mean(0).reshape(14, 14)
    assert np.abs(shares - shares[::-1]).max() < 0.05  # no side is preferred
    assert np.abs(shares - shares[:, ::-1]).max() < 0.05
    assert shares[5:9, 5:9].mean() > shares[[0, -1]].mean() > 0.05
