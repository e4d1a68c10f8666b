"""Sources made of others answer as those do."""

import numpy as np

from patchwords.data.sources.arrays import Arrays
from patchwords.data.sources.source import Joined, Subset


def numbered(name: str, count: int) -> Arrays:
    images = np.arange(count, dtype=np.uint8).reshape(count, 1, 1, 1)
    return Arrays(images, np.arange(count, dtype=np.int64) + 10 * len(name), name)


def test_joined_sources_follow_one_another() -> None:
    first, empty, second = numbered("a", 3), Subset(numbered("x", 2), []), Subset(numbered("bb", 4), [3, 1])
    joined = Joined([first, empty, second])
    assert len(joined) == 5
    assert joined.labels.tolist() == [10, 11, 12, 23, 21]
    assert [joined.name(index) for index in range(5)] == ["a/0", "a/1", "a/2", "bb/3", "bb/1"]
    assert [int(np.asarray(joined.picture(index)).item()) for index in range(5)] == [0, 1, 2, 3, 1]
    assert [joined.size(index) for index in range(5)] == [1] * 5
