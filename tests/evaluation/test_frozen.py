"""Features are computed once for each way of preparing pictures, and no way is taken that nobody needs."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from patchwords.data.broken import Broken
from patchwords.data.preprocess import Preprocess
from patchwords.data.sources.arrays import Arrays
from patchwords.evaluation.answers import Compute
from patchwords.evaluation.features import Features, protocol
from patchwords.evaluation.frozen import Frozen, Wanted, examine
from patchwords.evaluation.pictures import Lesson

OWN = Preprocess(size=(8, 8))
Examined = Callable[[Wanted], tuple[Frozen, list[tuple[str, Preprocess]]]]


def source(name: str, count: int) -> Arrays:
    return Arrays(np.zeros((count, 8, 8), dtype=np.uint8), np.arange(count) % 2, name)


@pytest.fixture
def examined(monkeypatch: pytest.MonkeyPatch) -> Examined:
    """What is found, and which part's features were asked for in which preparation."""
    asked: list[tuple[str, Preprocess]] = []

    def features(subject: Any, source: Arrays, preprocess: Preprocess, *_: Any, **__: Any) -> Features:
        asked.append((source.name(0), preprocess))
        vectors = source.labels[:, None] + np.random.default_rng(0).normal(0, 0.1, (len(source), 4))
        return Features(vectors=vectors.astype(np.float32), labels=source.labels, indices=np.arange(len(source.labels)))

    monkeypatch.setattr("patchwords.evaluation.frozen.features", features)
    lesson = Lesson(train=source("train", 20), test=source("test", 6), part="test", classes=("dark", "light"))
    subject: Any = SimpleNamespace(card=SimpleNamespace(preprocess=OWN))
    broken = Broken(0.0, 26, lambda remark: None)

    def examine_it(wanted: Wanted) -> tuple[Frozen, list[tuple[str, Preprocess]]]:
        return examine(subject, lesson, wanted, Compute(), broken, lambda what, done, total: None), asked

    return examine_it


def test_shots_have_the_protocols_preparation_alone(examined: Examined) -> None:
    found, asked = examined(Wanted(shots=(1, 2)))
    assert asked == [("train/0", protocol(OWN)), ("test/0", protocol(OWN))]
    assert (found.learned, found.judged, found.width) == (20, 6, 4)


def test_neighbours_and_the_probe_share_the_models_own(examined: Examined) -> None:
    found, asked = examined(Wanted(neighbours=(3,), probe=True))
    assert asked == [("train/0", OWN), ("test/0", OWN)]
    assert set(found.numbers()) == {"knn", "probe"}


def test_all_ways_need_both_preparations_once(examined: Examined) -> None:
    _, asked = examined(Wanted(shots=(1,), neighbours=(3,), probe=True))
    assert len(asked) == len(set(asked)) == 4
