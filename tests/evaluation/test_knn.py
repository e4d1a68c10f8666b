"""Nearest neighbours: equal to a plain loop, to scikit-learn's, and to a case that can be counted by hand."""

import json
import math
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import top_k_accuracy_score
from sklearn.neighbors import KNeighborsClassifier

from patchwords.errors import DataError, UsageError
from patchwords.evaluation import knn
from patchwords.evaluation.features import Features
from patchwords.evaluation.knn import nearest

CLASSES = 9


def made(vectors: Any, labels: Any) -> Features:
    labels = np.asarray(labels, dtype=np.int64)
    return Features(vectors=np.asarray(vectors, dtype=np.float32), labels=labels, indices=np.arange(len(labels)))


def drawn(count: int, seed: int) -> Features:
    """Clouds that overlap, of vectors whose lengths say nothing."""
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, CLASSES, count)
    centres = np.random.default_rng(99).normal(size=(CLASSES, 16))
    lengths = generator.uniform(0.1, 10, (count, 1))
    return made(lengths * (centres[labels] + 1.5 * generator.normal(size=(count, 16))), labels)


TRAIN, TEST = drawn(300, 0), drawn(131, 1)
STEPS = (1, 10, 20, 100, 300)


def looped(train: Features, test: Features, k: int, temperature: float) -> tuple[float, float]:
    """One picture after the other, in double precision."""
    first = fifth = 0
    bank = [vector / np.linalg.norm(vector) for vector in train.vectors.astype(np.float64)]
    for vector, label in zip(test.vectors.astype(np.float64), test.labels, strict=True):
        likeness = [float(vector @ other / np.linalg.norm(vector)) for other in bank]
        votes: dict[int, float] = {}
        for place in sorted(range(len(bank)), key=lambda place: -likeness[place])[:k]:
            votes[train.labels[place]] = votes.get(train.labels[place], 0) + math.exp(likeness[place] / temperature)
        best = sorted(votes, key=lambda voted: -votes[voted])[:5]
        first += best[0] == label
        fifth += label in best
    return first / len(test.labels), fifth / len(test.labels)


@pytest.mark.parametrize("temperature", [0.07, 1.0])
def test_shares_are_those_of_a_plain_loop(temperature: float) -> None:
    found = nearest(TRAIN, TEST, CLASSES, neighbours=STEPS, temperature=temperature)
    for near in found.results:
        assert (near.top1, near.top5) == looped(TRAIN, TEST, near.neighbours, temperature)


def test_shares_are_those_of_scikit_learn() -> None:
    for near in nearest(TRAIN, TEST, CLASSES, neighbours=STEPS).results:
        theirs = KNeighborsClassifier(
            near.neighbours, metric="cosine", algorithm="brute", weights=lambda distance: np.exp((1 - distance) / 0.07)
        ).fit(TRAIN.vectors, TRAIN.labels)
        assert near.top1 == theirs.score(TEST.vectors, TEST.labels)
        if near.neighbours == 300:  # with fewer some classes have no votes, and scikit-learn counts those too
            chances = theirs.predict_proba(TEST.vectors)
            assert near.top5 == top_k_accuracy_score(TEST.labels, chances, k=5, labels=range(CLASSES))


def test_nearness_outweighs_number() -> None:
    train = made([[1, 0], [0.6, 0.8], [0.6, 0.8], [0.6, -0.8]], [0, 1, 1, 1])
    test = made([[5, 0]], [0])
    near = nearest(train, test, 2, neighbours=(4,)).results[0]
    assert near.top1 == 1  # exp(1 / 0.07) against 3 exp(0.6 / 0.07), which is a hundredth of it
    assert nearest(train, test, 2, neighbours=(4,), temperature=1.0).results[0].top1 == 0  # e against 3 exp(0.6)


def test_a_class_without_votes_is_not_among_the_first_five() -> None:
    train = made(np.eye(4), [0, 1, 2, 3])
    test = made([[1, 0.1, 0, 0]], [3])
    few, all_of_them = nearest(train, test, 4, neighbours=(2, 4)).results
    assert (few.top1, few.top5) == (0, 0)
    assert (all_of_them.top1, all_of_them.top5) == (0, 1)


def test_of_equal_votes_the_first_class_wins() -> None:
    train = made([[0.6, 0.8], [0.6, -0.8]], [1, 0])
    test = made([[1, 0], [1, 0], [1, 0], [1, 0]], [0, 0, 0, 1])
    near = nearest(train, test, 2, neighbours=(2,)).results[0]
    assert (near.top1, near.top5) == (0.75, 1)


def test_every_picture_is_its_own_nearest() -> None:
    assert nearest(TRAIN, TRAIN, CLASSES, neighbours=(1,)).results[0].top1 == 1


def test_a_low_temperature_overflows_nowhere_and_asks_the_nearest_alone() -> None:
    cold, one = (
        nearest(TRAIN, TEST, CLASSES, neighbours=(20,), temperature=1e-5),
        nearest(TRAIN, TEST, CLASSES, neighbours=(1,)),
    )
    assert cold.results[0].top1 == one.results[0].top1


@pytest.mark.parametrize("chunk", [1, 300 * 7, 300 * 131])
def test_the_last_partial_chunk_is_scored_too(monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    whole = nearest(TRAIN, TEST, CLASSES, neighbours=STEPS)
    monkeypatch.setattr(knn, "CHUNK", chunk)
    assert nearest(TRAIN, TEST, CLASSES, neighbours=STEPS) == whole


def test_results_come_in_the_order_asked_for() -> None:
    found = nearest(TRAIN, TEST, CLASSES, neighbours=(100, 10, 20))
    assert [near.neighbours for near in found.results] == [100, 10, 20]
    assert sorted(found.results, key=lambda near: near.neighbours) == list(
        nearest(TRAIN, TEST, CLASSES, neighbours=(10, 20, 100)).results
    )


def test_numbers_are_plain_fractions() -> None:
    numbers = json.loads(json.dumps(nearest(TRAIN, TEST, CLASSES).numbers()))
    assert numbers["temperature"] == 0.07
    assert [row["neighbours"] for row in numbers["neighbours"]] == [10, 20, 100, 200]
    assert all(0 <= row["top1"] <= row["top5"] <= 1 for row in numbers["neighbours"])


@pytest.mark.parametrize(
    ("settings", "kind", "sentence"),
    [
        ({"neighbours": (20, 301)}, DataError, "301 neighbours are more than the 300 pictures.*choose 300 or fewer"),
        ({"neighbours": (0,)}, UsageError, "neighbours 0 is below 1"),
        ({"neighbours": ()}, UsageError, "no number of neighbours"),
        ({"temperature": 0.0}, UsageError, "temperature 0 is not above 0"),
    ],
)
def test_what_cannot_be_asked_is_refused(settings: Any, kind: type[Exception], sentence: str) -> None:
    with pytest.raises(kind, match=sentence):
        nearest(TRAIN, TEST, CLASSES, **settings)
