"""Few-shot least squares: equal to the stored reference, to a plain solve, and to cases that can be counted by hand."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from patchwords.errors import DataError, UsageError
from patchwords.evaluation import fewshot
from patchwords.evaluation.features import Features
from patchwords.evaluation.fewshot import FewShot, few_shot, fit, samples

GOLDEN = Path(__file__).resolve().parents[3] / "shared" / "golden" / "A9_fewshot_lsr"

Arrays = dict[str, np.ndarray[Any, Any]]


@pytest.fixture(scope="module")
def golden() -> Arrays:
    if not GOLDEN.is_dir():
        pytest.skip("the stored references are not beside this checkout: shared/golden/A9_fewshot_lsr is missing")
    with np.load(GOLDEN / "io.npz") as arrays:
        return {name: arrays[name] for name in arrays.files}


def made(vectors: Any, labels: Any) -> Features:
    labels = np.asarray(labels, dtype=np.int64)
    return Features(vectors=np.asarray(vectors, dtype=np.float32), labels=labels, indices=np.arange(len(labels)))


def drawn(each: int, classes: int = 4, width: int = 12, seed: int = 0) -> Features:
    """Clouds around a centre a class, that overlap; in an order that mixes the classes."""
    generator = np.random.default_rng(seed)
    labels = generator.permutation(np.repeat(np.arange(classes), each))
    centres = np.random.default_rng(99).normal(size=(classes, width))
    return made(centres[labels] + 1.5 * generator.normal(size=(len(labels), width)), labels)


def solved(train: Features, test: Features, classes: int, penalty: float) -> np.ndarray[Any, Any]:
    """The scores by the normal equations, as the textbook writes ridge regression."""
    vectors = train.vectors.astype(np.float64)
    mean, deviation = vectors.mean(0), vectors.std(0) + 1e-5
    x, seen = (
        np.hstack([(part - mean) / deviation, np.full((len(part), 1), 100.0)]) for part in (vectors, test.vectors)
    )
    y = np.where(np.eye(classes)[train.labels] > 0, 1.0, -1.0)
    return seen @ np.linalg.solve(x.T @ x + penalty * np.eye(x.shape[1]), x.T @ y)


@pytest.mark.parametrize(("part", "form"), [("", "primal"), ("_sub", "dual")])
def test_scores_are_those_of_the_reference(golden: Arrays, part: str, form: str) -> None:
    rows = int(golden["n_sub"]) if part else 60
    solver = fit(golden["x_train"][:rows], golden["y_train"][:rows], 6)
    assert len(solver.values) == (25 if form == "primal" else 18)
    for number, penalty in enumerate(golden["l2"].tolist()):
        scores, wanted = solver.scores(golden["x_test"], penalty), golden[f"scores_f64{part}"][number]
        assert scores.dtype == np.float64
        assert np.abs(scores - wanted).max() < 1e-6
        accuracy = np.mean(scores.argmax(1) == golden["y_test"])
        assert np.float32(accuracy) == golden[f"acc{part}"][number] == np.float32(golden[f"acc_f64{part}"][number])


def test_the_support_is_standardised_as_in_the_reference(golden: Arrays) -> None:
    solver = fit(golden["x_train"], golden["y_train"], 6)
    np.testing.assert_allclose(solver.mean, golden["mean"][0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(solver.deviation, golden["std"][0], rtol=1e-3)  # the smallest is 1e-4, in float32


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("shots", [1, 5, 10])
def test_the_reference_chose_the_same_pictures(golden: Arrays, seed: int, shots: int) -> None:
    found = samples(golden["y_train"], seed, shots)
    np.testing.assert_array_equal(found, golden[f"idx_seed{seed}_shots{shots}"])


def test_accuracies_by_seed_and_shots_are_those_of_the_reference(golden: Arrays) -> None:
    train, test = made(golden["x_train"], golden["y_train"]), made(golden["x_test"], golden["y_test"])
    found = few_shot(train, test, 6, shots=(1, 5), penalties=(2.0**10, 2.0**-5))
    np.testing.assert_array_equal(found.accuracy[:, :, 0].T.astype(np.float32), golden["acc_seed_by_shots"][:, :2])
    small = golden["acc_seed_by_shots_l2small_f64"][:, :2].astype(np.float32)
    np.testing.assert_array_equal(found.accuracy[:, :, 1].T.astype(np.float32), small)


def test_accuracies_are_those_of_the_reference_where_classes_give_all_they_have(golden: Arrays) -> None:
    for seed in range(3):
        chosen = samples(golden["y_train"], seed, 10)  # four of the six classes have fewer
        solver = fit(golden["x_train"][chosen], golden["y_train"][chosen], 6)
        for penalty, name in ((2.0**10, "acc_seed_by_shots"), (2.0**-5, "acc_seed_by_shots_l2small_f64")):
            accuracy = np.mean(solver.scores(golden["x_test"], penalty).argmax(1) == golden["y_test"])
            assert np.float32(accuracy) == np.float32(golden[name][seed, 2])


@pytest.mark.parametrize(("each", "form"), [(3, "dual"), (4, "primal"), (30, "primal")])
@pytest.mark.parametrize("penalty", [2.0**10, 1.0, 2.0**-5])
def test_both_forms_solve_the_regularised_least_squares(each: int, form: str, penalty: float) -> None:
    train, test = drawn(each, width=15), drawn(50, width=15, seed=1)
    solver = fit(train.vectors, train.labels, 4)
    assert len(solver.values) == (min(4 * each, 16))  # 16 columns, with the bias: four of each class reach that
    assert (4 * each >= 16) == (form == "primal")
    np.testing.assert_allclose(solver.scores(test.vectors, penalty), solved(train, test, 4, penalty), atol=1e-8)


@pytest.mark.parametrize("penalty", [1.0, 2.0**10])
def test_one_picture_of_each_of_two_classes_is_a_case_for_the_hand(penalty: float) -> None:
    solver = fit(np.array([[3.0], [7.0]]), np.array([0, 1]), 2)
    np.testing.assert_allclose(solver.mean, [5])
    np.testing.assert_allclose(solver.deviation, [2 + 1e-5], rtol=1e-12)
    at = 2 / (2 + 1e-5)  # where the second stands once standardised; the first stands opposite
    slope = 2 * at / (2 * at**2 + penalty)
    np.testing.assert_allclose(solver.weights(penalty), [[-slope, slope], [0, 0]], atol=1e-12)
    np.testing.assert_allclose(solver.scores(np.array([[9.0]]), penalty), [[-2 * at * slope, 2 * at * slope]])


def test_a_feature_that_never_changes_does_no_harm() -> None:
    train, test = drawn(30), drawn(30, seed=1)
    with_constant = [
        made(np.hstack([part.vectors, np.full((len(part.labels), 1), 0.3)]), part.labels) for part in (train, test)
    ]
    found = few_shot(*with_constant, 4)
    np.testing.assert_array_equal(found.accuracy, few_shot(train, test, 4).accuracy)


def test_fewer_shots_are_the_first_of_more() -> None:
    labels = drawn(30).labels
    for seed in range(3):
        few, many = (samples(labels, seed, shots).reshape(4, shots) for shots in (5, 25))
        np.testing.assert_array_equal(few, many[:, :5])
        np.testing.assert_array_equal(labels[many], np.repeat(np.arange(4), 25).reshape(4, 25))
        assert len(np.unique(many)) == 100


def test_pictures_are_drawn_as_numpys_generator_permutes_class_after_class() -> None:
    labels = drawn(30).labels
    generator = np.random.default_rng(7)
    wanted = [generator.permutation(np.flatnonzero(labels == label))[:5] for label in range(4)]
    np.testing.assert_array_equal(samples(labels, 7, 5), np.concatenate(wanted))


@pytest.fixture(scope="module")
def swept() -> FewShot:
    return few_shot(drawn(30), drawn(100, seed=1), 4, penalties=(2.0**10, 1.0, 2.0**-5))


def test_a_sweep_says_of_each_penalty_what_it_says_alone(swept: FewShot) -> None:
    assert swept.accuracy.shape == (4, 3, 3)
    for number, penalty in enumerate(swept.penalties):
        alone = few_shot(drawn(30), drawn(100, seed=1), 4, penalties=(penalty,))
        np.testing.assert_array_equal(alone.accuracy[:, :, 0], swept.accuracy[:, :, number])


def test_mean_and_deviation_are_over_the_seeds(swept: FewShot) -> None:
    first = swept.accuracy[2, :, 0]
    assert swept.mean[2, 0] == pytest.approx(sum(first) / 3)
    assert swept.deviation[2, 0] == pytest.approx(np.sqrt(((first - first.mean()) ** 2).sum() / 2))
    single = few_shot(drawn(30), drawn(100, seed=1), 4, seeds=(0,))
    assert (single.deviation == 0).all()


def test_numbers_are_plain_fractions_with_the_first_penalty_in_front(swept: FewShot) -> None:
    numbers = json.loads(json.dumps(swept.numbers()))
    assert numbers["penalty"] == 1024
    assert [row["shots"] for row in numbers["shots"]] == [1, 5, 10, 25]
    assert all(row["penalty"] == 1024 for row in numbers["shots"])
    assert len(numbers["sweep"]) == 12
    last = numbers["sweep"][-1]
    assert (last["shots"], last["penalty"]) == (25, 2.0**-5)
    assert last["accuracy"] == pytest.approx(np.mean(last["accuracies"]))
    assert all(0 <= row["accuracy"] <= 1 for row in numbers["sweep"])


def test_more_shots_are_better_here(swept: FewShot) -> None:
    assert swept.mean[3, 0] > swept.mean[0, 0] > 0.25


@pytest.mark.parametrize("chunk", [1, 7, 399, 400])
def test_the_last_partial_chunk_is_scored_too(monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    whole = few_shot(drawn(30), drawn(100, seed=1), 4, shots=(5,))
    monkeypatch.setattr(fewshot, "CHUNK", chunk)
    np.testing.assert_array_equal(few_shot(drawn(30), drawn(100, seed=1), 4, shots=(5,)).accuracy, whole.accuracy)


def test_a_class_with_too_few_pictures_is_named_with_the_most_that_works() -> None:
    train = drawn(30)
    rare = train.subset(np.setdiff1d(np.arange(120), np.flatnonzero(train.labels == 2)[8:]))
    sentence = "class number 2 has 8 readable pictures to learn from, too few for 25 shots: 8 shots are the most"
    with pytest.raises(DataError, match=sentence):
        few_shot(rare, train, 4)
    with pytest.raises(DataError, match="class 'cat' has 8 readable pictures"):
        few_shot(rare, train, 4, shots=(9, 1), names=("ant", "bee", "cat", "dog"))
    assert few_shot(rare, train, 4, shots=(1, 8)).accuracy.shape == (2, 3, 1)


def test_a_class_that_is_only_tested_is_refused_and_one_that_is_nowhere_is_not() -> None:
    train = drawn(30)
    without = train.subset(np.flatnonzero(train.labels != 1))
    with pytest.raises(DataError, match=r"class number 1 has 0 readable pictures to learn from.*: add some"):
        few_shot(without, train, 4, shots=(1,))
    found = few_shot(without, without, 4, shots=(25,))
    three = np.unique(without.labels, return_inverse=True)[1]
    relabelled = made(without.vectors, three)
    np.testing.assert_array_equal(found.accuracy, few_shot(relabelled, relabelled, 3, shots=(25,)).accuracy)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"shots": ()}, "at least one number of shots"),
        ({"seeds": ()}, "one seed"),
        ({"penalties": ()}, "one penalty"),
        ({"shots": (0, 5)}, "shots 0 is below 1"),
        ({"seeds": (-1,)}, "seed -1 is below 0"),
        ({"penalties": (1.0, 0.0)}, "penalty 0 is no number above 0"),
        ({"penalties": (1.0, float("nan"))}, "penalty nan is no number above 0"),
        ({"penalties": (1.0, float("inf"))}, "penalty inf is no number above 0"),
    ],
)
def test_settings_that_mean_nothing_are_refused(settings: Any, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        few_shot(drawn(30), drawn(30), 4, **settings)
