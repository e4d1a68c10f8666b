"""A folder of the cache stays below a size, and keeps what was asked for last."""

import os
from pathlib import Path

import pytest

from patchwords.evaluation.keeping import prune, used


@pytest.fixture
def kept(tmp_path: Path) -> list[Path]:
    """Four files of a hundred bytes, the oldest first."""
    paths = [tmp_path / f"{number}.safetensors" for number in range(4)]
    for time, path in enumerate(paths):
        path.write_bytes(bytes(100))
        os.utime(path, (time, time))
    return paths


@pytest.mark.parametrize(("most", "stay"), [(400, 4), (399, 3), (250, 2), (100, 1), (1, 1)])
def test_the_oldest_go_first_and_the_newest_stays(kept: list[Path], most: int, stay: int) -> None:
    assert prune(kept[-1], most) == 4 - stay
    assert sorted(kept[-1].parent.iterdir()) == kept[4 - stay :]


def test_what_is_asked_for_is_not_old(kept: list[Path]) -> None:
    used(kept[0])
    assert prune(kept[3], 200) == 2
    assert [path.exists() for path in kept] == [True, False, False, True]


def test_what_is_new_stays_though_the_clock_says_otherwise(kept: list[Path]) -> None:
    prune(kept[0], 200)
    assert [path.exists() for path in kept] == [True, False, False, True]


def test_what_cannot_be_marked_is_no_fault(tmp_path: Path) -> None:
    used(tmp_path / "gone")
