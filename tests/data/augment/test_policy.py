"""Policies draw every operation equally often, at the stated strengths, the same for a picture wherever it stands."""

from collections import Counter

import numpy as np
import pytest

from patchwords.data.augment.byol import Byol
from patchwords.data.augment.policy import NoPolicy, Policy, RandAugment, ThreeAugment, TrivialAugment
from patchwords.data.augment.rounds import Round
from patchwords.data.augment.strengths import TIMM
from patchwords.errors import UsageError
from patchwords.settings import read, write

SIZE = (224, 224)
MANY = 6000
DEIT = RandAugment(magnitude=9.0, deviation=0.5, probability=0.5)
EVERY = [NoPolicy(), RandAugment(), DEIT, RandAugment(table="torchvision"), TrivialAugment(), ThreeAugment(), Byol()]


def drawn(policy: Policy, count: int = MANY, seed: int = 0) -> list[Round]:
    return policy.rounds(SIZE, seed, np.zeros(count, dtype=int), np.arange(count))


def share(round_: Round, name: str) -> float:
    return float((round_.names == name).mean())


@pytest.mark.parametrize("policy", EVERY)
def test_a_picture_is_drawn_the_same_alone(policy: Policy) -> None:
    views, indices = np.array([0, 0, 3, 1, 0]), np.array([7, 8, 7, 123456, 0])
    together = policy.rounds(SIZE, 5, views, indices)
    for i in range(5):
        alone = policy.rounds(SIZE, 5, views[i : i + 1], indices[i : i + 1])
        for one, all_ in zip(alone, together, strict=True):
            assert one.names[0] == all_.names[i]
            assert (one.numbers[0] == all_.numbers[i]).all()


@pytest.mark.parametrize("policy", EVERY[1:])
def test_seeds_views_and_pictures_are_drawn_apart(policy: Policy) -> None:
    views, indices = np.zeros(64, dtype=int), np.arange(64)
    first = policy.rounds(SIZE, 0, views, indices)[0].names
    assert (first != policy.rounds(SIZE, 1, views, indices)[0].names).any()
    assert (first != policy.rounds(SIZE, 0, views + 1, indices)[0].names).any()
    assert (first != policy.rounds(SIZE, 0, views, indices + 64)[0].names).any()


def test_randaugment_draws_each_operation_equally_often_in_each_round() -> None:
    for round_ in drawn(RandAugment()):
        counts = Counter(round_.names.tolist())
        assert share(round_, "bilinear") == pytest.approx(5 / 15, abs=0.03)
        for name in set(TIMM.formulas) & set(counts):
            assert counts[name] / MANY == pytest.approx(1 / 15, abs=0.015)


def test_the_rounds_of_randaugment_are_drawn_apart() -> None:
    first, second, third = drawn(RandAugment(operations=3))
    for one, other in ((first, second), (second, third), (first, third)):
        same = (one.names == other.names).mean()
        assert same == pytest.approx((5 / 15) ** 2 + 10 * (1 / 15) ** 2, abs=0.03)


def test_a_probability_leaves_pictures_alone() -> None:
    for round_ in drawn(DEIT):
        assert share(round_, "identity") == pytest.approx(0.5, abs=0.02)


def test_torchvisions_identity_is_one_of_fourteen() -> None:
    for round_ in drawn(RandAugment(table="torchvision")):
        assert share(round_, "identity") == pytest.approx(1 / 14, abs=0.015)


def test_the_magnitude_is_fixed_without_a_deviation() -> None:
    for round_ in drawn(RandAugment(magnitude=9.0)):
        brightness = round_.numbers[round_.names == "brightness", 0]
        assert set(np.round(brightness, 6)) == {0.19, 1.81}


def test_deits_magnitude_is_normal_around_nine_and_clipped_at_ten() -> None:
    (round_, _) = drawn(DEIT, 40_000)
    brightness = round_.numbers[round_.names == "brightness", 0]
    magnitudes = np.abs(brightness - 1) / 0.09
    assert magnitudes.max() <= 10 + 1e-9
    assert np.median(magnitudes) == pytest.approx(9, abs=0.06)
    assert (magnitudes < 8.5).mean() == pytest.approx(0.1587, abs=0.03)
    assert (magnitudes > 10 - 1e-9).mean() == pytest.approx(0.0228, abs=0.015)
    assert (brightness > 1).mean() == pytest.approx(0.5, abs=0.05)


def test_big_visions_holes_lie_anywhere() -> None:
    (round_, _) = drawn(RandAugment(table="big-vision", magnitude=10.0))
    holes = round_.numbers[round_.names == "cover"]
    assert len(holes) / MANY == pytest.approx(1 / 16, abs=0.015)
    assert (holes[:, 2:4] - holes[:, :2] == 80).all()
    assert holes[:, :2].min() < -35
    assert holes[:, :2].max() > 170
    assert (holes[:, 4] == 128 / 255).all()


def test_trivialaugment_draws_one_operation_of_31_magnitudes() -> None:
    (round_,) = drawn(TrivialAugment(), 20_000)
    assert share(round_, "identity") == pytest.approx(1 / 14, abs=0.01)
    factors = np.abs(round_.numbers[round_.names == "colour", 0] - 1)
    assert len(set(np.round(factors / 0.033).astype(int))) == 31
    assert factors.mean() == pytest.approx(0.495, abs=0.03)


def test_3_augment_is_grey_solarised_or_blurred() -> None:
    (round_,) = drawn(ThreeAugment())
    for name in ("grey", "solarise", "blur"):
        assert share(round_, name) == pytest.approx(1 / 3, abs=0.02)
    assert set(round_.numbers[round_.names == "solarise", 0]) == {128}
    taps = round_.numbers[round_.names == "blur"]
    np.testing.assert_allclose(taps[:, 0] + 2 * taps[:, 1:].sum(1), 1)
    deviation = np.sqrt(2 * (taps * np.arange(7) ** 2).sum(1))  # of the blur that the weights make
    assert deviation.max() == pytest.approx(2, abs=0.05)
    assert np.median(deviation) == pytest.approx(1.05, abs=0.06)


def test_no_policy_is_no_round() -> None:
    assert drawn(NoPolicy()) == []


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"magnitude": 10.5}, "magnitude 10.5 is not between 0 and 10, as timm has it"),
        ({"magnitude": -1.0}, "magnitude -1.0 is not between 0 and 10"),
        ({"magnitude": 31.0, "table": "torchvision"}, "magnitude 31.0 is not between 0 and 30, as torchvision has it"),
        ({"magnitude": float("nan")}, "magnitude nan is not between"),
        ({"operations": 0}, "operations 0 is below 1"),
        ({"deviation": -0.5}, "deviation -0.5 is not a finite number"),
        ({"probability": 1.5}, "probability 1.5 is not between 0 and 1"),
        ({"table": "tim"}, "table: 'tim' is not one of timm, torchvision, big-vision; did you mean timm"),
    ],
)
def test_settings_that_mean_nothing_are_refused(settings: dict[str, object], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        RandAugment(**settings)


@pytest.mark.parametrize("policy", EVERY)
def test_settings_are_read_as_they_are_written(policy: Policy) -> None:
    assert read(write(policy), type(policy)) == policy
