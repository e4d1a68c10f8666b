"""Scores are those of scikit-learn, of torch, and of cases counted by hand; every picture counts once."""

import subprocess
import sys
import time
import tracemalloc
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn import metrics
from torch.nn import functional as F

from patchwords.errors import DataError, ModelError
from patchwords.evaluation import outputs as module
from patchwords.evaluation.classify import Scores, bin_of, classify, probabilities

HAND = np.log([[0.7, 0.2, 0.1], [0.1, 0.6, 0.3], [0.2, 0.5, 0.3], [0.05, 0.9, 0.05]])  # logits of known probabilities
TRUTH = np.array([0, 1, 2, 0])


def drawn(pictures: int = 503, classes: int = 11) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Logits that lean towards the label; class 3 never occurs, and class 4 is never predicted."""
    generator = np.random.default_rng(0)
    labels = generator.choice(np.delete(np.arange(classes), 3), pictures)
    logits = generator.normal(size=(pictures, classes)) + 2 * np.eye(classes)[labels]
    logits[:, 4] -= 20
    return logits.astype(np.float32), labels


@pytest.fixture(scope="module")
def scores() -> Scores:
    return classify(*drawn())


def test_scores_are_those_of_scikit_learn(scores: Scores) -> None:
    logits, labels = drawn()
    predicted, names = logits.argmax(1), range(11)
    assert scores.count == 503
    assert scores.accuracy == metrics.accuracy_score(labels, predicted)
    assert scores.top5 == metrics.top_k_accuracy_score(labels, logits, k=5, labels=list(names))
    assert scores.macro_f1 == pytest.approx(metrics.f1_score(labels, predicted, average="macro", zero_division=0))
    recalls = metrics.recall_score(labels, predicted, labels=np.unique(labels), average="macro", zero_division=0)
    assert scores.balanced_accuracy == pytest.approx(recalls)
    chances = torch.from_numpy(logits).double().softmax(1).numpy()
    assert scores.loss == pytest.approx(metrics.log_loss(labels, chances, labels=list(names)))
    assert scores.brier == pytest.approx(((chances - np.eye(11)[labels]) ** 2).sum(1).mean())


def test_every_class_is_scored_as_scikit_learn_does(scores: Scores) -> None:
    logits, labels = drawn()
    table = metrics.precision_recall_fscore_support(labels, logits.argmax(1), labels=range(11), zero_division=0)
    columns = (scores.classes.precision, scores.classes.recall, scores.classes.f1, scores.classes.support)
    for ours, theirs in zip(columns, table, strict=True):
        np.testing.assert_allclose(ours, theirs)


@pytest.mark.parametrize(
    ("pictures", "classes", "skill"),
    [(1, 1, 0), (1, 7, 0), (40, 2, 1), (30, 25, 2), (25, 400, 6), (300, 300, 3), (2000, 90, 2)],
)
def test_rare_classes_count_as_scikit_learn_counts_them(pictures: int, classes: int, skill: float) -> None:
    generator = np.random.default_rng(pictures)
    chances = 1 / np.arange(1, classes + 1)  # the last classes have one picture or none
    labels = generator.choice(classes, pictures, p=chances / chances.sum())
    logits = generator.normal(size=(pictures, classes)) + skill * np.eye(classes)[labels]
    found, predicted = classify(logits, labels), logits.argmax(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # at classes that are predicted and do not occur, and at a matrix of one
        accuracy = metrics.accuracy_score(labels, predicted)
        macro_f1 = metrics.f1_score(labels, predicted, average="macro", zero_division=0)
        balanced = metrics.balanced_accuracy_score(labels, predicted)
        confusion = metrics.confusion_matrix(labels, predicted, labels=range(classes))
    assert found.accuracy == accuracy
    assert found.macro_f1 == pytest.approx(macro_f1)
    assert found.balanced_accuracy == pytest.approx(balanced)
    np.testing.assert_array_equal(found.confusion, confusion)
    np.testing.assert_array_equal(found.classes.support, confusion.sum(1))
    np.testing.assert_array_equal(found.classes.predicted, confusion.sum(0))


def test_a_class_without_pictures_and_one_never_predicted_score_zero(scores: Scores) -> None:
    assert scores.classes.support[3] == 0
    assert scores.classes.predicted[4] == 0
    assert scores.classes.recall[3] == scores.classes.precision[4] == 0
    assert scores.classes.f1[3] == scores.classes.f1[4] == 0


def test_the_confusion_matrix_is_scikit_learns(scores: Scores) -> None:
    logits, labels = drawn()
    assert scores.confusion.dtype == np.int64
    np.testing.assert_array_equal(
        scores.confusion, metrics.confusion_matrix(labels, logits.argmax(1), labels=range(11))
    )


def test_hand_made_probabilities_give_hand_made_numbers() -> None:
    found = classify(HAND, TRUTH)
    assert found.accuracy == 0.5
    assert found.top5 == 1.0  # three classes: all are among the first five
    np.testing.assert_array_equal(found.confusion, [[1, 1, 0], [0, 1, 0], [0, 1, 0]])
    np.testing.assert_allclose(found.classes.precision, [1, 1 / 3, 0])
    np.testing.assert_allclose(found.classes.recall, [0.5, 1, 0])
    np.testing.assert_allclose(found.classes.f1, [2 / 3, 0.5, 0])
    assert found.macro_f1 == pytest.approx(7 / 18)
    assert found.balanced_accuracy == pytest.approx(0.5)
    assert found.loss == pytest.approx(-np.log([0.7, 0.6, 0.3, 0.05]).mean())
    assert found.negative_log_likelihood == found.loss
    assert found.brier == pytest.approx((0.14 + 0.26 + 0.78 + (0.95**2 + 0.9**2 + 0.05**2)) / 4)


def test_calibration_compares_how_sure_with_how_right_bin_by_bin() -> None:
    found = classify(HAND, TRUTH)  # right at 0.7 and 0.6, wrong at 0.5 and 0.9: four bins with one picture each
    assert found.calibration_error == pytest.approx((0.3 + 0.4 + 0.5 + 0.9) / 4)
    assert found.bins.count.sum() == 4
    filled = found.bins.count > 0
    np.testing.assert_allclose(found.bins.confidence[filled], [0.5, 0.6, 0.7, 0.9])
    np.testing.assert_allclose(found.bins.accuracy[filled], [0, 1, 1, 0])
    np.testing.assert_allclose(found.bins.edges, np.linspace(0, 1, 16))


def test_a_model_that_is_too_sure_is_off_by_as_much() -> None:
    """In two thirds it says 90 % and is right in 6 of 10, otherwise 55 % and 1 in 2: 2/3 · 0.3 + 1/3 · 0.05."""
    chances = np.repeat([[0.9, 0.1], [0.55, 0.45]], [20, 10], axis=0)
    labels = np.array([0, 0, 0, 1, 1, 0, 0, 0, 1, 1] * 2 + [0, 1] * 5)
    found = classify(np.log(chances), labels)
    assert found.calibration_error == found.bins.error == pytest.approx(2 / 3 * 0.3 + 1 / 3 * 0.05)
    filled = found.bins.count > 0
    np.testing.assert_allclose(found.bins.confidence[filled], [0.55, 0.9])
    np.testing.assert_allclose(found.bins.accuracy[filled], [0.5, 0.6])


def test_a_model_as_sure_as_it_is_right_has_no_calibration_error() -> None:
    logits = np.log(np.tile([0.75, 0.25], (400, 1)))
    assert classify(logits, np.repeat([0, 0, 0, 1], 100)).calibration_error == pytest.approx(0)


def test_a_bin_holds_its_upper_edge() -> None:
    assert bin_of(np.array([0.0, 0.01, 0.2, 0.2000001, 0.4, 1.0])).tolist() == [0, 0, 2, 3, 5, 14]


def test_complete_certainty_falls_into_the_last_bin() -> None:
    found = classify(np.array([[1000.0, 0.0], [1000.0, 0.0]]), np.array([0, 1]))
    assert found.bins.count.tolist() == [0] * 14 + [2]
    assert found.calibration_error == 0.5
    assert found.loss == 500


def test_pairs_are_ordered_by_count_and_then_by_class(scores: Scores) -> None:
    confusion = scores.confusion
    pairs = scores.confused(1000)
    assert pairs == sorted(pairs, key=lambda pair: (-pair[2], pair[0], pair[1]))
    assert all(confusion[true, predicted] == count and true != predicted for true, predicted, count in pairs)
    assert sum(count for *_, count in pairs) == confusion.sum() - confusion.trace()
    assert scores.confused(3) == pairs[:3]


def test_mistakes_come_with_the_surest_first() -> None:
    assert classify(HAND, TRUTH).mistakes().tolist() == [3, 2]


def test_of_equal_logits_the_first_is_predicted_and_ranks_before_the_others() -> None:
    found = classify(np.zeros((7, 7)), np.arange(7))
    assert found.predicted.tolist() == [0] * 7
    assert found.accuracy == pytest.approx(1 / 7)
    assert found.top5 == pytest.approx(5 / 7)
    assert found.rank.tolist() == list(range(7))


def test_sigmoid_scores_every_class_as_a_question_of_its_own() -> None:
    logits, labels = drawn()
    found = classify(logits, labels, loss="sigmoid")
    outputs, target = torch.from_numpy(logits).double(), F.one_hot(torch.from_numpy(labels), 11).double()
    expected = F.binary_cross_entropy_with_logits(outputs, target, reduction="sum") / len(labels)
    assert found.loss == pytest.approx(float(expected))
    true = outputs.gather(1, torch.from_numpy(labels)[:, None])
    assert found.negative_log_likelihood == pytest.approx(float(-F.logsigmoid(true).mean()))
    assert found.brier == pytest.approx(float((outputs.sigmoid() - target).square().sum(1).mean()))
    np.testing.assert_allclose(found.confidence, outputs.sigmoid().amax(1).numpy())
    assert found.accuracy == classify(logits, labels).accuracy


def test_sigmoids_of_huge_logits_stay_finite() -> None:
    found = classify(np.array([[2000.0, -2000.0]]), np.array([1]), loss="sigmoid")
    assert found.loss == 4000
    assert found.brier == 2


@pytest.mark.parametrize("chunk", [1, 40, 11 * 100, 11 * 503])
def test_the_last_partial_chunk_is_scored_too(monkeypatch: pytest.MonkeyPatch, scores: Scores, chunk: int) -> None:
    monkeypatch.setattr(module, "CHUNK", chunk)
    assert classify(*drawn()).numbers() == scores.numbers()


@pytest.mark.parametrize("kind", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_tensors_of_every_precision_are_taken(kind: torch.dtype) -> None:
    logits, labels = drawn()
    outputs = torch.from_numpy(logits).to(kind).requires_grad_()
    found = classify(outputs, torch.from_numpy(labels).int())
    assert found.numbers() == classify(outputs.detach().double().numpy(), labels).numbers()


def test_numbers_are_flat_and_finite(scores: Scores) -> None:
    names = "count loss accuracy top5 macro_f1 balanced_accuracy negative_log_likelihood brier calibration_error"
    assert list(scores.numbers()) == names.split()
    assert all(type(value) in (int, float) and np.isfinite(value) for value in scores.numbers().values())


def test_probabilities_are_of_the_kind_of_the_loss() -> None:
    np.testing.assert_allclose(probabilities(HAND), np.exp(HAND))
    np.testing.assert_allclose(probabilities(torch.tensor([[0.0, 0.0]]), loss="sigmoid"), [[0.5, 0.5]])


@pytest.mark.parametrize(
    ("logits", "labels", "sentence"),
    [
        (np.zeros((2, 3)), np.zeros(3), "do not belong together"),
        (np.zeros(3), np.zeros(3), "do not belong together"),
        (np.zeros((0, 3)), np.zeros(0), "nothing to score"),
        (np.zeros((2, 3)), np.array([0, 3]), "label 3 is none of the 3 classes"),
        (np.zeros((2, 3)), np.array([-1, 0]), "label -1 is none"),
    ],
)
def test_what_cannot_be_scored_is_refused(logits: Any, labels: Any, sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        classify(logits, labels)


@pytest.mark.parametrize("loss", ["softmax", "sigmoid"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_logits_that_are_not_finite_are_no_scores(loss: Any, value: float) -> None:
    logits = np.zeros((4, 3))
    logits[2, 1] = value
    with pytest.raises(ModelError, match="of 1 pictures are not finite, the first of them number 2"):
        classify(logits, np.zeros(4), loss=loss)


def test_importing_it_does_not_load_scikit_learn() -> None:
    """Starting a run does not wait for what is needed after an epoch."""
    code = "import sys; import patchwords.evaluation.classify; sys.exit('sklearn' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parents[2], check=True)


def test_as_many_classes_as_imagenet_21k_fit_the_memory() -> None:
    logits, labels = np.zeros((40, 21_843), dtype=np.float32), np.arange(40) * 546
    logits[np.arange(40), labels] = 1
    tracemalloc.start()
    found = classify(logits, labels)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.accuracy == found.macro_f1 == found.balanced_accuracy == 1
    assert len(found.classes.recall) == 21_843
    assert peak < 32 << 20  # their matrix would be 4 GB


def test_imagenets_validation_set_takes_about_a_second() -> None:
    logits = np.random.default_rng(0).standard_normal((5_000, 1000), dtype=np.float32)  # a tenth of it
    start = time.process_time()
    classify(logits, np.arange(5_000) % 1000)
    assert time.process_time() - start < 0.5
