"""Randomness with an address: a draw is a pure function of what it is for and where it stands, never of a stream.

So the number of workers does not matter, a resumed run draws what the first one drew, and so does every world size.
"""

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # splitmix64 (Steele, Lea and Flood, 2014): its step and its mixing constants
FIRST, SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)

Numbers = NDArray[np.float64]
Words = NDArray[np.uint64]
Part = int | NDArray[Any]  # one number, or one for every sample


def words(purpose: str, *address: Part) -> Words:
    """64 random bits for every place; the parts of an address are whole numbers that broadcast."""
    state = np.asarray(int.from_bytes(hashlib.sha256(purpose.encode()).digest()[:8], "little"), dtype=np.uint64)
    with np.errstate(over="ignore"):
        for part in address:
            state = _mix(state + GOLDEN + _mix(np.asarray(part).astype(np.uint64)))
    return state


def uniform(purpose: str, *address: Part, count: int) -> Numbers:
    """`count` numbers in [0, 1) for every place: (…, count)."""
    state = words(purpose, *address)[..., None]
    with np.errstate(over="ignore"):
        bits = _mix(state + GOLDEN * np.arange(1, count + 1, dtype=np.uint64))
    return (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53


def seed(purpose: str, *address: int) -> int:
    """A seed for a generator that must be a stream, such as the one behind dropout within a step."""
    return int(words(purpose, *address)) >> 1  # torch takes signed ones


def permutation(purpose: str, *address: int, of: int) -> NDArray[np.int64]:
    """The numbers below `of` in the order of this address."""
    return np.argsort(words(purpose, *address, np.arange(of)), kind="stable").astype(np.int64)


def _mix(state: Words) -> Words:
    """The finaliser of splitmix64: every bit of the input moves every bit of the output."""
    with np.errstate(over="ignore"):
        state = (state ^ (state >> np.uint64(30))) * FIRST
        state = (state ^ (state >> np.uint64(27))) * SECOND
        mixed: Words = state ^ (state >> np.uint64(31))
    return mixed
