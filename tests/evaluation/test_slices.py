"""Pictures by their size: quarters that never part equal sizes."""

import numpy as np
import pytest

from patchwords.errors import DataError
from patchwords.evaluation.slices import Slice, by_size
from patchwords.pages.wording import interval


def squares(*sides: int) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    return np.array([(side, side) for side in sides], dtype=np.int64)


def test_pictures_fall_into_quarters_with_the_smallest_first() -> None:
    sides = np.random.default_rng(0).permutation(np.arange(100, 180))
    found = by_size(squares(*sides), sides < 120)
    assert [each.name.removesuffix(" pixels a side") for each in found] == [
        "100 to 119",
        "120 to 139",
        "140 to 159",
        "160 to 179",
    ]
    assert [each.count for each in found] == [20] * 4
    assert [each.accuracy for each in found] == [1, 0, 0, 0]


def test_the_size_is_the_root_of_the_number_of_pixels() -> None:
    sizes = np.array([[100, 400], [400, 100], [200, 200], [30, 30]])
    found = by_size(sizes, np.array([True, True, False, True]))
    assert [(each.name, each.count) for each in found] == [("30 pixels a side", 1), ("200 pixels a side", 3)]
    assert found[1].accuracy == pytest.approx(2 / 3)
    assert by_size(np.array([[10, 12]]), np.array([True]))[0].name == "11 pixels a side"  # 10.95


def test_each_slice_has_the_interval_of_its_share() -> None:
    (found,) = by_size(squares(*[8] * 10), np.arange(10) < 9)
    low, high = interval(0.9, 10)
    assert found == Slice(name="8 pixels a side", count=10, accuracy=0.9, low=low, high=high)


@pytest.mark.parametrize("sides", [(5,), (5, 9), (5, 9, 12), (5, 9, 12, 40)])
def test_few_sizes_are_a_slice_each(sides: tuple[int, ...]) -> None:
    found = by_size(squares(*sides, *[sides[0]] * 50), np.ones(len(sides) + 50, dtype=bool))
    assert [each.name for each in found] == [f"{side} pixels a side" for side in sides]
    assert [each.count for each in found] == [51] + [1] * (len(sides) - 1)


def test_equal_sizes_are_not_parted() -> None:
    found = by_size(squares(*[50] * 90, *range(60, 70)), np.ones(100, dtype=bool))
    assert [(each.name, each.count) for each in found] == [
        ("50 pixels a side", 90),
        ("60 to 69 pixels a side", 10),
    ]


def test_every_picture_is_in_one_slice() -> None:
    sizes = np.random.default_rng(0).integers(1, 3000, (501, 2))
    right = np.random.default_rng(1).random(501) < 0.4
    found = by_size(sizes, right)
    assert sum(each.count for each in found) == 501
    assert sum(each.count * each.accuracy for each in found) == pytest.approx(right.sum())
    assert len({each.name for each in found}) == len(found) == 4


def test_sizes_without_their_pictures_are_refused() -> None:
    with pytest.raises(DataError, match="do not belong to 3 pictures"):
        by_size(squares(4, 5), np.ones(3, dtype=bool))


def test_no_pictures_have_no_slices() -> None:
    assert by_size(np.zeros((0, 2), dtype=np.int64), np.zeros(0, dtype=bool)) == []
