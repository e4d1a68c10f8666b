"""The order of the samples: an endless row of shuffled passes, cut into batches.

A batch may reach over the end of a pass into the next, so that every batch is full and every picture comes once a pass.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from patchwords.ops import draws

Indices = NDArray[np.int64]


@dataclass(frozen=True)
class Order:
    """Which picture stands where, for a seed; with `repeats`, each comes so often in a pass (Hoffer et al., 2020)."""

    seed: int
    samples: int
    repeats: int = 1

    def take(self, start: int, stop: int) -> tuple[Indices, Indices]:
        """Pictures and views at these places of the row; a view is the number of times a picture was shown before."""
        places = np.arange(start, stop)
        passes, within = places // (self.samples * self.repeats), places % (self.samples * self.repeats)
        rows, repeats = self._interleaved(within)
        indices = np.empty_like(places)
        for number in np.unique(passes):
            chosen = passes == number
            indices[chosen] = _shuffled(self.seed, int(number), self.samples)[rows[chosen]]
        return indices, passes * self.repeats + repeats

    def _interleaved(self, within: Indices) -> tuple[Indices, Indices]:
        """Two by two, a b a b a b: neighbours are mixed with each other, and none should be mixed with itself."""
        pair, place = within // (2 * self.repeats), within % (2 * self.repeats)
        alone = 2 * pair + 1 >= self.samples  # the last of an odd number
        return 2 * pair + np.where(alone, 0, place % 2), np.where(alone, place, place // 2)


def share(batch: int, rank: int, world: int) -> slice:
    """A rank's part of every batch: neighbours in pairs, since pairs are mixed with each other."""
    pairs = batch // 2
    edges = [2 * (pairs * number // world) for number in range(world)] + [batch]
    return slice(edges[rank], edges[rank + 1])


@lru_cache(maxsize=2)
def _shuffled(seed: int, number: int, samples: int) -> NDArray[Any]:
    return draws.permutation("order", seed, number, of=samples)
