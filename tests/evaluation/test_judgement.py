"""Answers are judged as numbers of the model's outputs, picture by picture."""

import numpy as np
import pytest

from patchwords.evaluation.answers import Answers
from patchwords.evaluation.judgement import MEASURED, Judgement, judge
from patchwords.evaluation.matching import Matching

MATCHING = Matching(outputs=np.array([2, 0]), names=("b", "neither", "a"))  # of data with the classes a and b


def judged(sets: list[tuple[int, ...]] | None = None) -> Judgement:
    """Pictures 0, 2 and 3 of a source, since 1 was broken: a is taken for a, b for b, and the large a for neither."""
    answers = Answers(
        outputs=np.eye(3, dtype=np.float32)[[2, 0, 1]],
        labels=np.array([0, 1, 0]),
        indices=np.array([0, 2, 3]),
        sizes=np.array([[4, 4], [4, 4], [9, 9]]),
    )
    return judge(answers, MATCHING, "softmax", sets)


def test_labels_of_the_data_become_numbers_of_outputs() -> None:
    found = judged()
    assert found.scores.labels.tolist() == [2, 0, 2]
    assert found.scores.accuracy == pytest.approx(2 / 3)
    assert [(each.count, each.accuracy) for each in found.sizes] == [(2, 1.0), (1, 0.0)]
    slices = {each["name"]: (each["count"], each["accuracy"]) for each in found.numbers()["slices"]["class"]}
    assert slices == {"a": (2, 0.5), "b": (1, 1.0)}


def test_sets_of_labels_belong_to_pictures_of_the_source() -> None:
    found = judged(sets=[(2,), (1,), (0,), (0,)])
    assert found.real is not None
    assert (found.real.accuracy, found.real.count) == (pytest.approx(2 / 3), 3)


def test_a_temperature_is_told_where_other_pictures_tell_of_one() -> None:
    for logits, labels, known in (
        ([[1, 0]], [0], False),
        ([[1, 0]] * 9, [0] * 9, False),
        ([[1, 0]] * 9, [0, 1] * 4 + [0], True),
    ):
        count = len(labels)
        answers = Answers(
            outputs=np.array(logits, dtype=np.float32),
            labels=np.array(labels),
            indices=np.arange(count),
            sizes=np.full((count, 2), 4),
        )
        numbers = judge(answers, Matching(outputs=np.arange(2), names=("a", "b")), "softmax").numbers()
        assert all((numbers[key] is not None) is known for key in ("temperature", "ece_scaled", "loss_scaled"))


def test_what_is_told_has_the_names_that_are_promised() -> None:
    assert set(judged().numbers()) == set(MEASURED)
