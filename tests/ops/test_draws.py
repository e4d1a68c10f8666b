"""Randomness with an address: uniform, the same however it is asked for, and pinned for ever.

Whoever changes the numbers here changes every run that could have been resumed or repeated.
"""

import hashlib
import math
import subprocess
import sys

import numpy as np
import pytest

from patchwords.ops import draws

WORD = 1 << 64


def mixed(state: int) -> int:
    """splitmix64's finaliser on Python's own numbers."""
    state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 % WORD
    state = (state ^ (state >> 27)) * 0x94D049BB133111EB % WORD
    return state ^ (state >> 31)


def word(purpose: str, *address: int) -> int:
    """What `words` is meant to be, written out."""
    state = int.from_bytes(hashlib.sha256(purpose.encode()).digest()[:8], "little")
    for part in address:
        state = mixed((state + 0x9E3779B97F4A7C15 + mixed(part % WORD)) % WORD)
    return state


def numbers(purpose: str, *address: int, count: int) -> list[float]:
    state = word(purpose, *address)
    return [(mixed((state + 0x9E3779B97F4A7C15 * place) % WORD) >> 11) / 2**53 for place in range(1, count + 1)]


# The law


def test_the_numbers_are_pinned() -> None:
    assert draws.uniform("crop", 0, 0, 0, count=3).tolist() == [
        0.9021203891908014,
        0.5355380094874993,
        0.978882210678863,
    ]
    assert int(draws.words("order", 0, 1)) == 0xBF23E9A91EC6C888
    assert draws.seed("dropout", 0, 1, 2) == 2945825030323185444
    assert draws.permutation("order", 0, 0, of=12).tolist() == [7, 5, 3, 11, 10, 8, 4, 0, 1, 6, 2, 9]
    assert draws.permutation("order", 3, 1, of=12).tolist() == [11, 9, 10, 2, 3, 7, 6, 8, 1, 0, 4, 5]


@pytest.mark.parametrize("address", [(), (0,), (0, 0), (1, 2, 3), (2**63 - 1, 2**40), (7, -1)])
def test_the_law_is_splitmix64_over_the_parts_of_the_address(address: tuple[int, ...]) -> None:
    assert int(draws.words("flip", *address)) == word("flip", *address)
    assert draws.uniform("flip", *address, count=5).tolist() == numbers("flip", *address, count=5)
    assert draws.seed("flip", *address) == word("flip", *address) // 2


def test_another_process_draws_the_same() -> None:
    code = "from patchwords.ops import draws; print(draws.uniform('erase', 5, 6, 7, count=2).tolist())"
    told = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert told.strip() == str(draws.uniform("erase", 5, 6, 7, count=2).tolist())


# Addresses


def test_a_batch_draws_what_each_of_its_samples_draws_alone() -> None:
    views, indices = np.array([0, 3, 0, 9]), np.array([5, 5, 6, 0])
    together = draws.uniform("crop", 4, views, indices, count=7)
    assert together.shape == (4, 7)
    for row, view, index in zip(together, views, indices, strict=True):
        assert np.array_equal(row, draws.uniform("crop", 4, int(view), int(index), count=7))
    assert np.array_equal(draws.uniform("crop", 4, views[2:], indices[2:], count=7), together[2:])


@pytest.mark.parametrize("kind", [np.int64, np.int32, np.uint8, np.uint64])
def test_the_kind_of_whole_number_does_not_matter(kind: type) -> None:
    places = np.arange(9)
    assert np.array_equal(draws.words("flip", 1, places.astype(kind)), draws.words("flip", 1, places))
    assert draws.words("flip", kind(3)) == draws.words("flip", 3)


def test_parts_broadcast_against_each_other() -> None:
    grid = draws.words("mix", np.arange(3)[:, None], np.arange(4))
    assert grid.shape == (3, 4)
    assert all(grid[row, col] == draws.words("mix", row, col) for row in range(3) for col in range(4))


def test_more_numbers_begin_with_the_fewer() -> None:
    assert np.array_equal(
        draws.uniform("jitter", 1, np.arange(5), count=9)[:, :4], draws.uniform("jitter", 1, np.arange(5), count=4)
    )


def test_no_place_gives_no_numbers() -> None:
    assert draws.uniform("crop", 0, np.array([], dtype=np.int64), count=3).shape == (0, 3)
    assert draws.uniform("crop", 0, 1, count=0).shape == (0,)
    assert draws.permutation("order", 0, of=0).tolist() == []


def test_every_part_of_an_address_counts_and_so_does_its_place() -> None:
    addresses = [(), (0,), (1,), (0, 0), (0, 1), (1, 0), (1, 1), (0, 0, 0), (0, 0, 1), (0, 1, 0), (1, 0, 0), (-1,)]
    purposes = ["crop", "flip", "mix", "order", "", "crop "]
    found = {int(draws.words(purpose, *address)) for purpose in purposes for address in addresses}
    assert len(found) == len(purposes) * len(addresses)


def test_a_large_set_draws_no_word_twice() -> None:
    found = draws.words("crop", 0, np.arange(4)[:, None], np.arange(50_000))
    assert len(np.unique(found)) == found.size


# The distribution


def test_numbers_are_at_least_0_and_below_1() -> None:
    found = draws.uniform("crop", 3, np.arange(100_000), count=4)
    assert found.dtype == np.float64
    assert found.min() >= 0
    assert found.max() < 1
    assert found.min() < 1e-4
    assert found.max() > 1 - 1e-4


@pytest.mark.parametrize("axis", ["samples", "views", "seeds", "count"])
def test_numbers_are_uniform_along_every_part_of_the_address(axis: str) -> None:
    places = np.arange(100_000)
    found = {
        "samples": lambda: draws.uniform("crop", 3, 0, places, count=1)[:, 0],
        "views": lambda: draws.uniform("crop", 3, places, 0, count=1)[:, 0],
        "seeds": lambda: draws.uniform("crop", places, 0, 0, count=1)[:, 0],
        "count": lambda: draws.uniform("crop", 3, 0, 0, count=len(places)),
    }[axis]()
    bins, _ = np.histogram(found, bins=100, range=(0, 1))
    squares = ((bins - 1000) ** 2 / 1000).sum()  # chi-squared with 99 degrees of freedom: 99 +- 14
    assert 50 < squares < 160
    assert abs(found.mean() - 0.5) < 5 * math.sqrt(1 / 12 / len(places))


def test_the_lowest_bits_are_as_good_as_the_highest() -> None:
    found = draws.words("crop", 3, 0, np.arange(50_000))
    shares = [float((found >> np.uint64(bit) & np.uint64(1)).mean()) for bit in range(64)]
    assert max(abs(share - 0.5) for share in shares) < 5 * 0.5 / math.sqrt(50_000)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (("crop", 0, 0, np.arange(50_000)), ("flip", 0, 0, np.arange(50_000))),
        (("crop", 0, 0, np.arange(50_000)), ("crop", 1, 0, np.arange(50_000))),
        (("crop", 0, 0, np.arange(50_000)), ("crop", 0, 1, np.arange(50_000))),
        (("crop", 0, 0, np.arange(50_000)), ("crop", 0, 0, np.arange(1, 50_001))),
        (("crop", 0, 0, np.arange(50_000)), ("crop", 0, np.arange(50_000), 0)),
    ],
    ids=["purposes", "seeds", "views", "neighbours", "exchanged parts"],
)
def test_what_stands_at_different_addresses_is_independent(first: tuple, second: tuple) -> None:
    left, right = (draws.uniform(*address, count=1)[1:, 0] for address in (first, second))
    assert abs(np.corrcoef(left, right)[0, 1]) < 5 / math.sqrt(50_000)


def test_the_numbers_of_one_place_are_independent_of_each_other() -> None:
    found = draws.uniform("crop", 3, 0, np.arange(50_000), count=6)
    apart = np.corrcoef(found.T) - np.eye(6)
    assert np.abs(apart).max() < 5 / math.sqrt(50_000)


# Seeds and permutations


def test_seeds_are_what_torch_takes() -> None:
    seeds = [draws.seed("dropout", 0, step, 0) for step in range(1000)]
    assert len(set(seeds)) == 1000
    assert all(0 <= seed < 2**63 for seed in seeds)


@pytest.mark.parametrize("of", [1, 2, 3, 10, 1000])
def test_a_permutation_holds_every_number_once(of: int) -> None:
    found = draws.permutation("order", 5, 6, of=of)
    assert found.dtype == np.int64
    assert sorted(found.tolist()) == list(range(of))


def test_permutations_are_as_different_as_their_addresses() -> None:
    found = {tuple(draws.permutation("order", seed, epoch, of=20)) for seed in range(5) for epoch in range(5)}
    assert len(found) == 25


def test_every_number_is_everywhere_equally_often() -> None:
    found = np.stack([draws.permutation("order", 0, epoch, of=6) for epoch in range(3000)])
    counts = np.stack([(found == number).sum(0) for number in range(6)])  # (number, place), 500 each
    assert np.abs(counts - 500).max() < 5 * math.sqrt(3000 * 1 / 6 * 5 / 6)
