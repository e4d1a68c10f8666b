"""Intervals are as wide as theory says, the same each time, and hold the score."""

import time
from typing import Any

import numpy as np
import pytest
from sklearn import metrics

from patchwords.errors import UsageError
from patchwords.evaluation import bootstrap as module
from patchwords.evaluation.bootstrap import Interval, intervals
from patchwords.evaluation.classify import Scores, classify, reliability
from patchwords.ops import draws

NAMES = ["accuracy", "top5", "macro_f1", "balanced_accuracy", "calibration_error"]


def scored(pictures: int = 400, classes: int = 7, skill: float = 2.0) -> Scores:
    generator = np.random.default_rng(0)
    labels = generator.integers(0, classes, pictures)
    return classify(generator.normal(size=(pictures, classes)) + skill * np.eye(classes)[labels], labels)


def interval(values: Any, *, level: float = 0.95, resamples: int = 1000) -> Interval:
    """Of the mean of one number a picture; what `intervals` does for the accuracy, without the other scores."""
    means = [times @ values / len(values) for times in module._resamples(len(values), resamples, 0)]
    return module._percentiles(np.concatenate(means), level)


@pytest.mark.parametrize("share", [0.5, 0.8, 0.95])
def test_of_a_share_it_is_as_wide_as_the_binomial_distribution(share: float) -> None:
    right = np.arange(2000) < 2000 * share
    low, high = interval(right, resamples=4000)
    reach = 1.96 * np.sqrt(share * (1 - share) / 2000)
    assert low == pytest.approx(share - reach, abs=0.1 * reach)
    assert high == pytest.approx(share + reach, abs=0.1 * reach)


def test_of_a_mean_it_is_as_wide_as_the_central_limit_says() -> None:
    values = np.random.default_rng(0).normal(5, 3, size=1000)
    low, high = interval(values, resamples=4000, level=0.9)
    reach = 1.645 * values.std() / np.sqrt(1000)
    assert low == pytest.approx(values.mean() - reach, abs=0.1 * reach)
    assert high == pytest.approx(values.mean() + reach, abs=0.1 * reach)


def test_it_holds_the_truth_about_as_often_as_it_says() -> None:
    """Of 300 samples with 30 % right, 95 % of the intervals hold the 30 %, up to the luck of 300 (1.3 % each way)."""
    samples = np.random.default_rng(0).random((300, 200)) < 0.3
    found = [interval(right, resamples=400) for right in samples]
    assert 0.91 <= np.mean([low <= 0.3 <= high for low, high in found]) <= 0.98


def test_every_picture_is_drawn_as_often_as_every_other() -> None:
    times = np.concatenate(list(module._resamples(50, 4000, 0)))
    assert times.shape == (4000, 50)
    np.testing.assert_array_equal(times.sum(1), 50)
    np.testing.assert_allclose(times.mean(0), 1, atol=5 / np.sqrt(4000))
    assert times.var() == pytest.approx(1 - 1 / 50, rel=0.02)  # as of a multinomial distribution


def test_it_is_the_same_each_time_and_in_any_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    first = intervals(scored())
    monkeypatch.setattr(module, "CHUNK", 1000)
    assert intervals(scored()) == first
    assert intervals(scored(), seed=1)["balanced_accuracy"] != pytest.approx(first["balanced_accuracy"], rel=1e-6)


def test_every_score_lies_within_its_interval() -> None:
    scores = scored()
    found = intervals(scores)
    assert list(found) == NAMES
    for name, (low, high) in found.items():
        assert 0 <= low < getattr(scores, name) < high <= 1
    assert found["accuracy"] == pytest.approx(interval(scores.predicted == scores.labels))


def test_a_wider_level_and_fewer_pictures_give_wider_intervals() -> None:
    found = [intervals(scored(2000)), intervals(scored(200)), intervals(scored(200), level=0.99)]
    for name in NAMES:
        widths = [each[name].high - each[name].low for each in found]
        assert widths == sorted(widths)


@pytest.mark.parametrize("classes", [9, 40])  # of 40, some are predicted that do not occur
def test_the_scores_of_a_resample_are_those_of_scikit_learn(classes: int) -> None:
    scores = scored(60, classes)
    drawn = (draws.uniform("bootstrap", 0, 0, count=60) * 60).astype(int)
    labels, predicted, confidence = scores.labels[drawn], scores.predicted[drawn], scores.confidence[drawn]
    accuracy, top5, f1, balanced, error = next(module._rescored(scores, 1, 0))
    assert accuracy == pytest.approx(metrics.accuracy_score(labels, predicted))
    assert top5 == pytest.approx((scores.rank[drawn] < 5).mean())
    assert f1 == pytest.approx(metrics.f1_score(labels, predicted, average="macro", zero_division=0))
    recall = metrics.recall_score(labels, predicted, labels=np.unique(labels), average="macro")
    assert balanced == pytest.approx(recall)
    assert error == pytest.approx(reliability(confidence, labels == predicted).error)


def test_the_bias_of_a_resampled_calibration_error_is_taken_off() -> None:
    """A model as sure as it is right: each resample looks worse than the pictures themselves."""
    labels = np.repeat([0, 1], [75, 25])
    scores = classify(np.log(np.tile([[0.75, 0.25]], (100, 1))), labels)
    low, high = intervals(scores)["calibration_error"]
    assert (scores.calibration_error, low) == (pytest.approx(0), 0)
    assert 0 < high < 0.1


def test_where_all_are_right_there_is_no_width() -> None:
    found = intervals(classify(100 * np.eye(3)[np.arange(30) % 3], np.arange(30) % 3))
    assert all(found[name] == (1, 1) for name in NAMES[:4])
    assert found["calibration_error"] == pytest.approx((0, 0))


def test_one_picture_says_nothing_about_others() -> None:
    found = intervals(classify(np.array([[1.0, 0.0]]), np.array([1])))
    assert found["accuracy"] == (0, 0)
    assert found["top5"] == (1, 1)


@pytest.mark.parametrize("settings", [{"level": 95.0}, {"resamples": 0}])
def test_what_has_no_interval_is_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="choose"):
        intervals(scored(20), **settings)


def test_imagenets_validation_set_takes_seconds() -> None:
    """A tenth of the resamples of 50,000 pictures and 1000 classes."""
    generator = np.random.default_rng(0)
    labels, predicted = generator.integers(0, 1000, (2, 50_000))
    small = scored(5, 1000)
    scores = Scores(
        **small.numbers() | {"count": 50_000},
        classes=small.classes,
        bins=small.bins,
        labels=labels,
        predicted=predicted,
        confidence=generator.random(50_000),
        rank=labels,
    )
    start = time.process_time()
    intervals(scores, resamples=100)
    assert time.process_time() - start < 1


def test_a_score_lies_within_its_interval_even_where_resamples_hardly_differ() -> None:
    """One picture of a hundred is right: most resamples say the same, a few something else."""
    logits = np.tile([1.0, 0.0], (100, 1))
    labels = np.ones(100, dtype=np.int64)
    labels[0] = 0
    scores = classify(logits, labels)
    for name, interval in intervals(scores).items():
        assert interval.low <= getattr(scores, name) <= interval.high, name
