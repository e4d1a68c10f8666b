"""An answer: classes and probabilities that belong together, the best first."""

import numpy as np
import pytest

from patchwords.errors import UsageError
from patchwords.serve.prediction import Prediction

NAMES = ("ant", "bee", "cat", "dog")


def answer(*logits: float, loss: str = "softmax", name: str = "a.png") -> Prediction:
    return Prediction(name=name, classes=NAMES, logits=np.array(logits, dtype=np.float32), loss=loss)  # type: ignore[arg-type]


def test_labels_and_probabilities_are_in_the_same_order_best_first() -> None:
    found = answer(0.0, 2.0, 1.0, -1.0)
    assert found.labels == ("bee", "cat", "ant", "dog")
    expected = np.exp([2.0, 1.0, 0.0, -1.0]) / np.exp([2.0, 1.0, 0.0, -1.0]).sum()
    assert np.allclose(found.probabilities, expected)
    assert (found.label, found.probability) == ("bee", found.probabilities[0])
    assert [found.of(label) for label in found.labels] == found.probabilities.tolist()


def test_a_softmax_sums_to_one_and_sigmoids_stand_alone() -> None:
    assert answer(3, 1, 0, 2).probabilities.sum() == pytest.approx(1)
    yes = answer(3, 1, 0, 2, loss="sigmoid")
    assert np.allclose(yes.probabilities, 1 / (1 + np.exp([-3.0, -2.0, -1.0, 0.0])))


def test_logits_decide_where_probabilities_round_to_the_same() -> None:
    found = answer(50, 60, 40, 45, loss="sigmoid")
    assert found.probabilities.tolist() == [1.0] * 4
    assert found.labels == ("bee", "ant", "dog", "cat")


def test_of_equal_classes_the_first_comes_first() -> None:
    assert answer(1, 1, 1, 1).labels == NAMES
    logits = np.arange(1000, dtype=np.float32) % 3  # so many that another sort would mix them
    many = Prediction(name="a", classes=tuple(map(str, range(1000))), logits=logits)
    assert many.labels == tuple(str(number) for rest in (2, 1, 0) for number in range(rest, 1000, 3))


def test_top_gives_so_many_or_all() -> None:
    found = answer(0, 2, 1, -1)
    assert [each.label for each in found.top(2)] == ["bee", "cat"]
    assert len(found.top(99)) == 4
    assert found.top(1)[0].probability == found.probability
    for wrong in (0, -1):
        with pytest.raises(UsageError, match=f"top {wrong} is below 1"):
            found.top(wrong)


def test_a_class_that_is_not_there_is_refused_with_the_nearest() -> None:
    with pytest.raises(UsageError, match="'bea' is none of the classes; did you mean bee"):
        answer(0, 0, 0, 0).of("bea")


def test_it_is_short_in_a_shell() -> None:
    assert repr(answer(0, 2, 1, -1)) == "Prediction('a.png', 'bee': 0.6439, 'cat': 0.2369, 'ant': 0.0871, …)"
