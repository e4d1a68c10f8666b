"""The temperature is the one that is known, and what it is worth is told of pictures it was not fitted on."""

from typing import Any

import numpy as np
import pytest
import torch

from patchwords.errors import DataError, ModelError, UsageError
from patchwords.evaluation import outputs as module
from patchwords.evaluation.calibrate import Calibration, calibrate, stratified
from patchwords.evaluation.classify import Loss, classify

Array = np.ndarray[Any, Any]
RIGHT = np.array([[2.0, 0.0], [0.0, 3.0], [1.0, 0.0]]), np.array([0, 1, 0])  # perfectly separable
TOO_SURE = np.tile([[np.log(9), 0.0]], (100, 1)), np.repeat([0, 1], [75, 25])  # says 90 %, is right in 75 %


def true_to_its_chances(factor: float, pictures: int = 20_000, classes: int = 6) -> tuple[Array, Array]:
    """Labels drawn from softmax(z), and the logits factor * z."""
    generator = np.random.default_rng(1)
    logits = 2 * generator.normal(size=(pictures, classes))
    chances = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    return factor * logits, (chances.cumsum(1) > generator.random((pictures, 1))).argmax(1)


def temperature(logits: Any, labels: Any, loss: Loss = "softmax") -> float:
    return calibrate(logits, labels, loss=loss, folds=2).temperature


@pytest.mark.parametrize("factor", [0.05, 0.5, 1.0, 2.5, 40.0])
def test_the_factor_that_logits_were_multiplied_with_is_found(factor: float) -> None:
    assert temperature(*true_to_its_chances(factor)) == pytest.approx(factor, rel=0.03)


def test_a_temperature_by_hand() -> None:
    """log 9 / T must be log 3, the log-odds of three in four."""
    assert temperature(*TOO_SURE) == pytest.approx(2, rel=1e-6)


def test_sigmoids_have_a_temperature_by_hand() -> None:
    """Yes to the first class and no to the second, both at 90 %, and both right in three of four pictures."""
    logits = np.tile([[np.log(9), -np.log(9)]], (100, 1))
    labels = np.repeat([0, 1], [75, 25])
    assert temperature(logits, labels, loss="sigmoid") == pytest.approx(2, rel=1e-6)


@pytest.mark.parametrize("loss", ["softmax", "sigmoid"])
def test_no_other_temperature_makes_the_loss_smaller(loss: Loss) -> None:
    logits, labels = true_to_its_chances(3.0, pictures=500)
    best = temperature(logits, labels, loss=loss)
    losses = [classify(logits / (best * near), labels, loss=loss).loss for near in (0.5, 0.98, 1, 1.02, 2)]
    assert min(losses) == losses[2]
    assert losses[0] > losses[1] > losses[2] < losses[3] < losses[4]


def test_it_does_not_depend_on_chunks_or_on_the_kind_of_number(monkeypatch: pytest.MonkeyPatch) -> None:
    logits, labels = true_to_its_chances(2.0, pictures=301)
    logits = logits.astype(np.float32)
    expected = temperature(logits, labels)
    monkeypatch.setattr(module, "CHUNK", 50)
    assert temperature(torch.from_numpy(logits), torch.from_numpy(labels)) == pytest.approx(expected, rel=1e-12)


def test_where_every_picture_is_right_it_ends_at_the_bound() -> None:
    found = calibrate(*RIGHT)
    assert (found.temperature, found.bounded) == (0.01, True)
    assert found.after.calibration_error == found.before.calibration_error  # nothing was learned of a temperature


def test_where_every_picture_is_wrong_it_ends_at_the_other_bound() -> None:
    found = calibrate(RIGHT[0], 1 - RIGHT[1])
    assert (found.temperature, found.bounded) == (100, True)


@pytest.mark.parametrize("logits", [np.ones((4, 3)), np.ones((4, 1)), 2000 * np.eye(4)])
def test_where_no_temperature_changes_anything_it_is_one(logits: Array) -> None:
    labels = np.zeros(4) if logits.shape[1] < 4 else np.arange(4)
    assert temperature(logits, labels) == 1


def test_a_class_that_is_ruled_out_by_minus_infinity_has_no_say() -> None:
    logits, labels = TOO_SURE
    ruled_out = np.concatenate([logits, np.full((100, 1), -np.inf)], axis=1)
    assert temperature(ruled_out, labels) == temperature(logits, labels)


def test_one_mistake_among_sure_answers_is_found_in_a_few_steps() -> None:
    """Newton's steps alone would creep: the loss is exponentially flat."""
    labels = np.arange(1000) % 10
    logits = 60 * np.eye(10)[labels]
    logits[0] = 60 * np.eye(10)[1]
    found = temperature(logits, labels)
    odds = 9 * 999  # of the label to each of the nine others, so that one in a thousand is wrong
    assert found == pytest.approx(60 / np.log(odds), rel=1e-3)


@pytest.fixture(scope="module")
def overconfident() -> Calibration:
    return calibrate(*true_to_its_chances(3.0, pictures=4000))


def test_calibration_mends_a_model_that_is_too_sure(overconfident: Calibration) -> None:
    scores = classify(*true_to_its_chances(3.0, pictures=4000))
    before, after = overconfident.before, overconfident.after
    assert (before.loss, before.calibration_error) == (scores.loss, scores.calibration_error)
    assert before.negative_log_likelihood == scores.negative_log_likelihood
    assert before.calibration_error > 0.15
    assert after.calibration_error < 0.03
    assert after.loss < before.loss
    assert overconfident.folds == 5
    assert not overconfident.bounded


def test_by_hand_the_error_goes_from_15_percent_to_none() -> None:
    found = calibrate(*TOO_SURE)
    assert found.before.calibration_error == pytest.approx(0.15)
    assert found.after.calibration_error == pytest.approx(0, abs=1e-6)  # five folds with three in four right in each
    assert found.after.loss == pytest.approx(-0.75 * np.log(0.75) - 0.25 * np.log(0.25))


def test_scaling_changes_how_sure_the_model_is_but_not_how_often_it_is_right(overconfident: Calibration) -> None:
    bins = overconfident.before.bins, overconfident.after.bins
    right = [float((each.count * each.accuracy).sum()) for each in bins]
    assert right[0] == pytest.approx(right[1])
    assert bins[0].count.tolist() != bins[1].count.tolist()


def test_no_picture_is_scaled_by_a_temperature_that_knew_it() -> None:
    """The only mistake is alone in its fold: the others see none, tell of no temperature, and it stays as it is."""
    logits, labels = np.tile([[4.0, 0.0]], (10, 1)), np.zeros(10, dtype=np.int64)
    labels[3] = 1
    found = calibrate(logits, labels, folds=10)
    assert found.temperature == pytest.approx(4 / np.log(9))
    assert found.after.loss == pytest.approx(0.1 * np.log1p(np.exp(4)) + 0.9 * np.log1p(1 / 8), rel=1e-6)


def test_folds_are_the_same_each_time_and_other_ones_with_another_seed() -> None:
    logits, labels = true_to_its_chances(3.0, pictures=200)
    first, second, other = (calibrate(logits, labels, seed=seed).after.loss for seed in (0, 0, 1))
    assert first == second != other


def test_each_class_is_spread_over_the_folds() -> None:
    labels = np.repeat([0, 1, 2], [50, 20, 3])
    place = stratified(labels, 5, 0)
    assert np.bincount(place).tolist() == [15, 15, 15, 14, 14]
    counts = np.array([np.bincount(place[labels == label], minlength=5) for label in range(3)])
    assert (counts.max(1) - counts.min(1)).tolist() == [0, 0, 1]


def test_a_single_picture_stays_as_it_is() -> None:
    found = calibrate(np.array([[2.0, 0.0]]), np.array([1]))
    assert found.folds == 1
    assert found.temperature == 100
    assert found.after.loss == found.before.loss


@pytest.mark.parametrize("loss", ["softmax", "sigmoid"])
@pytest.mark.parametrize("pictures", [2, 3, 4])
def test_few_pictures_are_a_fold_each(pictures: int, loss: Loss) -> None:
    logits, labels = true_to_its_chances(1.0, pictures=pictures)
    found = calibrate(logits, labels, loss=loss)
    assert found.folds == pictures
    assert np.isfinite([found.temperature, found.after.loss, found.after.calibration_error]).all()


def test_what_cannot_be_calibrated_is_refused() -> None:
    with pytest.raises(DataError, match="nothing to score"):
        temperature(np.zeros((0, 3)), np.zeros(0))
    with pytest.raises(ModelError, match="of 1 pictures are not finite, the first of them number 1"):
        temperature(np.array([[0.0, 1.0], [np.nan, 0.0]]), np.array([0, 1]))
    with pytest.raises(UsageError, match="choose 2 or more"):
        calibrate(*RIGHT, folds=1)


def test_one_mistake_is_not_made_dreadful_by_folds_that_know_of_none() -> None:
    """The fold that holds the only mistake is scaled by others that are all right, which tell of no temperature."""
    logits = np.tile([4.0, 0.0], (50, 1))
    labels = np.zeros(50, dtype=np.int64)
    labels[7] = 1
    found = calibrate(logits, labels)
    assert found.after.loss < found.before.loss + 0.05
