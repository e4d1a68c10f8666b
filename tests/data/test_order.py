"""The order of the samples: every picture once a pass, for every batch and every number of processes."""

from collections import Counter

import numpy as np
import pytest

from patchwords.data.order import Order, share
from patchwords.ops import draws


def test_every_picture_comes_once_a_pass() -> None:
    order = Order(seed=3, samples=17)
    for number in range(4):
        indices, views = order.take(17 * number, 17 * (number + 1))
        assert sorted(indices.tolist()) == list(range(17))
        assert set(views.tolist()) == {number}


def test_passes_and_seeds_are_shuffled_apart() -> None:
    rows = [tuple(Order(seed, 50).take(50 * number, 50 * number + 50)[0]) for seed in range(3) for number in range(3)]
    assert len(set(rows)) == 9
    assert all(row != tuple(range(50)) for row in rows)


def test_the_order_is_pinned() -> None:
    indices, views = Order(seed=0, samples=12).take(8, 16)
    assert indices.tolist() == [1, 6, 2, 9, *draws.permutation("order", 0, 1, of=12)[:4]]
    assert views.tolist() == [0, 0, 0, 0, 1, 1, 1, 1]


@pytest.mark.parametrize("batch", [1, 4, 7, 10, 23, 64])
def test_batches_reach_over_the_end_of_a_pass_and_are_cut_from_one_row(batch: int) -> None:
    order = Order(seed=1, samples=10)
    whole, views = order.take(0, batch * 6)
    for step in range(6):
        found, seen = order.take(step * batch, (step + 1) * batch)
        assert len(found) == batch
        assert np.array_equal(found, whole[step * batch : (step + 1) * batch])
        assert np.array_equal(seen, views[step * batch : (step + 1) * batch])


def test_a_view_counts_how_often_a_picture_was_shown_before() -> None:
    for repeats in (1, 2, 3):
        seen: Counter[int] = Counter()
        for index, view in zip(*Order(seed=2, samples=7, repeats=repeats).take(0, 7 * 12), strict=True):
            assert view == seen[index]
            seen[index] += 1


@pytest.mark.parametrize("repeats", [2, 3])
def test_with_repeats_each_picture_comes_so_often_a_pass(repeats: int) -> None:
    indices, views = Order(seed=2, samples=9, repeats=repeats).take(0, 9 * repeats)
    assert Counter(indices.tolist()) == dict.fromkeys(range(9), repeats)
    assert len(set(zip(indices.tolist(), views.tolist(), strict=True))) == 9 * repeats


@pytest.mark.parametrize("samples", [8, 9])
@pytest.mark.parametrize("repeats", [2, 3])
def test_neighbours_in_a_pair_are_different_pictures_even_with_repeats(samples: int, repeats: int) -> None:
    order = Order(seed=2, samples=samples, repeats=repeats)
    for number in range(3):
        start = samples * repeats * number
        stop = start + (samples - samples % 2) * repeats  # the last of an odd number has no other to go with
        indices, _ = order.take(start, stop)
        assert (indices[0::2] != indices[1::2]).all()  # mixing a picture with itself would be no mixing


def test_an_empty_stretch_is_empty() -> None:
    indices, views = Order(seed=0, samples=5).take(3, 3)
    assert len(indices) == len(views) == 0


@pytest.mark.parametrize("world", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("batch", [16, 17, 64, 100, 513])
def test_the_shares_of_all_processes_are_the_batch(batch: int, world: int) -> None:
    parts = [share(batch, rank, world) for rank in range(world)]
    rows = [row for part in parts for row in range(*part.indices(batch))]
    assert rows == list(range(batch))
    assert all(part.start % 2 == 0 for part in parts)  # pairs are mixed with each other, so none is torn apart
    sizes = [part.stop - part.start for part in parts]
    assert min(sizes) >= 1
    assert max(sizes) - min(sizes) <= 3


@pytest.mark.parametrize("world", [1, 2, 3, 4, 8])
def test_any_number_of_processes_sees_the_same_pictures_in_the_same_order(world: int) -> None:
    order, batch = Order(seed=5, samples=100), 48
    alone, _ = order.take(0, batch * 5)
    together = []
    for step in range(5):
        for rank in range(world):
            part = share(batch, rank, world)
            together += order.take(step * batch + part.start, step * batch + part.stop)[0].tolist()
    assert together == alone.tolist()
