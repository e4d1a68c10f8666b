"""The linear probe: scikit-learn's logistic regression, its strength chosen on held-out pictures, without a warning."""

import json
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from patchwords.data.sources.split import Split, split
from patchwords.errors import DataError, UsageError
from patchwords.evaluation import probe as module
from patchwords.evaluation.features import Features
from patchwords.evaluation.probe import Probe, probe

CLASSES = 4


def drawn(each: int, seed: int, classes: int = CLASSES, noise: float = 1.5) -> Features:
    """Clouds that overlap; the features have scales of their own, and the last one never changes."""
    generator = np.random.default_rng(seed)
    labels = generator.permutation(np.repeat(np.arange(classes), each))
    centres = np.random.default_rng(99).normal(size=(classes, 12))
    vectors = (centres[labels] + noise * generator.normal(size=(len(labels), 12))) * 10.0 ** np.arange(-3, 9, 1)[:12]
    vectors = np.hstack([vectors, np.full((len(labels), 1), 0.3)])
    return Features(vectors=vectors.astype(np.float32), labels=labels, indices=np.arange(len(labels)))


TRAIN, TEST = drawn(30, 0), drawn(60, 1)
STRENGTHS = (1e-3, 1e-1, 10.0)


def theirs(train: Features, strength: float) -> Any:
    model = make_pipeline(StandardScaler(), LogisticRegression(C=strength, max_iter=2000, tol=1e-6))
    return model.fit(train.vectors.astype(np.float64), train.labels)


@pytest.fixture(scope="module")
def found() -> Probe:
    return probe(TRAIN, TEST, CLASSES, strengths=STRENGTHS)


def test_the_scores_are_those_of_scikit_learn_with_the_chosen_strength(found: Probe) -> None:
    model = theirs(TRAIN, found.strength)
    assert found.scores.accuracy == model.score(TEST.vectors, TEST.labels)
    chances = model.predict_proba(TEST.vectors)[np.arange(len(TEST.labels)), TEST.labels]
    assert found.scores.loss == pytest.approx(-np.log(chances).mean(), rel=1e-3)
    assert found.converged


def test_the_sweep_is_judged_by_a_fifth_of_every_class_that_is_held_out(found: Probe) -> None:
    names = [str(label) for label in range(CLASSES)]
    kept, held = (TRAIN.subset(part) for part in split(TRAIN.labels, names, Split(share=0.2, seed=0)))
    assert np.bincount(held.labels).tolist() == [6] * CLASSES
    for trial in found.sweep:
        assert trial.accuracy == theirs(kept, trial.strength).score(held.vectors, held.labels)
        assert trial.converged


def test_the_best_of_the_sweep_is_chosen_and_of_equals_the_smallest(found: Probe) -> None:
    best = max(trial.accuracy for trial in found.sweep)
    assert found.strength == min(trial.strength for trial in found.sweep if trial.accuracy == best)
    assert [trial.strength for trial in found.sweep] == list(STRENGTHS)
    easy = drawn(20, 0, noise=0.01)
    assert probe(easy, easy, CLASSES, strengths=(1.0, 0.1, 10.0)).strength == 0.1


def test_another_seed_holds_out_others(found: Probe) -> None:
    other = probe(TRAIN, TEST, CLASSES, strengths=STRENGTHS, seed=1)
    assert [trial.accuracy for trial in other.sweep] != [trial.accuracy for trial in found.sweep]


def test_the_default_sweep_has_nine_strengths_and_warns_of_nothing() -> None:
    swept = probe(TRAIN, TEST, CLASSES)
    np.testing.assert_allclose([trial.strength for trial in swept.sweep], 10.0 ** np.arange(-4, 5))
    assert swept.scores.accuracy > 0.5


@pytest.mark.parametrize("strengths", [(1.0,), STRENGTHS])
def test_two_classes_are_enough(strengths: tuple[float, ...]) -> None:
    train, test = drawn(30, 0, classes=2), drawn(60, 1, classes=2)
    two = probe(train, test, 2, strengths=strengths)
    model = theirs(train, two.strength)
    assert two.scores.accuracy == model.score(test.vectors, test.labels)
    chances = model.predict_proba(test.vectors)[np.arange(len(test.labels)), test.labels]
    assert two.scores.loss == pytest.approx(-np.log(chances).mean(), rel=1e-3)


def test_a_single_strength_needs_no_sweep() -> None:
    rare = drawn(4, 0)  # nothing could be held out
    alone = probe(rare, TEST, CLASSES, strengths=(1.0,))
    assert (alone.strength, alone.sweep) == (1.0, ())
    assert alone.scores.count == len(TEST.labels)


def test_a_solver_that_is_stopped_early_says_so_and_does_not_warn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STEPS", 2)
    short = probe(TRAIN, TEST, CLASSES, strengths=(1.0, 10.0))
    assert not short.converged
    assert not any(trial.converged for trial in short.sweep)
    assert short.numbers()["converged"] is False


def test_a_class_that_was_never_seen_is_never_predicted() -> None:
    without = TRAIN.subset(np.flatnonzero(TRAIN.labels != 1))
    blind = probe(without, TEST, CLASSES, strengths=(1.0,))
    assert blind.scores.classes.predicted[1] == 0
    assert np.isfinite(blind.scores.loss)
    others = TEST.subset(np.flatnonzero(TEST.labels != 1))
    seen = probe(without, others, CLASSES, strengths=(1.0,)).scores
    chances = theirs(without, 1.0).predict_proba(others.vectors)[
        np.arange(180), np.searchsorted([0, 2, 3], others.labels)
    ]
    assert seen.loss == pytest.approx(-np.log(chances).mean(), rel=1e-3)


def test_progress_counts_the_fits() -> None:
    seen: list[tuple[int, int]] = []
    probe(TRAIN, TEST, CLASSES, strengths=STRENGTHS, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_numbers_are_plain_fractions(found: Probe) -> None:
    numbers = json.loads(json.dumps(found.numbers()))
    assert numbers["top1"] == found.scores.accuracy
    assert numbers["top5"] == 1
    assert [row["strength"] for row in numbers["sweep"]] == list(STRENGTHS)
    assert all(0 <= row["accuracy"] <= 1 for row in numbers["sweep"])


@pytest.mark.parametrize(
    ("train", "strengths", "kind", "sentence"),
    [
        (TRAIN, (), UsageError, r"strengths \[\] are not numbers above 0"),
        (TRAIN, (1.0, 0.0), UsageError, "are not numbers above 0"),
        (drawn(9, 0, classes=1), STRENGTHS, DataError, "there is only one class"),
        (drawn(4, 0), STRENGTHS, DataError, "the largest class has 4 pictures.*a single strength"),
    ],
)
def test_what_cannot_be_learned_is_refused(
    train: Features, strengths: Any, kind: type[Exception], sentence: str
) -> None:
    with pytest.raises(kind, match=sentence):
        probe(train, TEST, CLASSES, strengths=strengths)
