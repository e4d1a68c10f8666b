"""BYOL's colour changes: each as often and as strong as stated, and by the kind of crop."""

from itertools import pairwise

import numpy as np
import pytest

from patchwords.data.augment.byol import JITTERED, Byol
from patchwords.data.augment.rounds import Round
from patchwords.data.glimpses import FIRST, numbered
from patchwords.errors import UsageError

MANY = 8000
CROPS = {"first": 0, "other": FIRST["large"], "third": FIRST["large"] + 1, "small": FIRST["small"] + 5}


def drawn(policy: Byol, number: int = 0) -> list[Round]:
    views = numbered(np.zeros(MANY, dtype=np.int64), number)
    return policy.rounds((64, 64), 0, views, np.arange(MANY))


def share(round_: Round, name: str) -> float:
    return float((round_.names == name).mean())


@pytest.mark.parametrize(
    ("crop", "blur", "solarise"), [("first", 1.0, 0.0), ("other", 0.1, 0.2), ("third", 0.1, 0.2), ("small", 0.5, 0.0)]
)
def test_each_kind_of_crop_has_probabilities_of_its_own(crop: str, blur: float, solarise: float) -> None:
    *jitter, grey, blurred, solarised = drawn(Byol(), CROPS[crop])
    assert share(grey, "grey") == pytest.approx(0.2, abs=0.02)
    assert share(blurred, "blur") == pytest.approx(blur, abs=0.02)
    assert share(solarised, "solarise") == pytest.approx(solarise, abs=0.02)
    for round_ in jitter:
        assert share(round_, "identity") == pytest.approx(0.2, abs=0.02)


def test_jitter_is_all_four_in_one_of_24_orders_within_its_strengths() -> None:
    rounds = drawn(Byol(jitter=1.0))[:4]
    orders = np.stack([round_.names for round_ in rounds], axis=1)
    assert all(sorted(row) == sorted(JITTERED) for row in orders.tolist())
    counts = np.unique(orders, axis=0, return_counts=True)[1]
    assert len(counts) == 24
    assert counts.min() > 0.7 * MANY / 24
    for name, low, high in (("brightness", 0.6, 1.4), ("contrast", 0.6, 1.4), ("colour", 0.8, 1.2), ("hue", -0.1, 0.1)):
        numbers = np.concatenate([round_.numbers[round_.names == name, 0] for round_ in rounds])
        assert low <= numbers.min() < low + 0.01
        assert high - 0.01 < numbers.max() <= high


def test_a_picture_is_jittered_in_all_rounds_or_in_none() -> None:
    rounds = drawn(Byol())[:4]
    for one, other in pairwise(rounds):
        assert np.array_equal(one.names == "identity", other.names == "identity")


def test_crops_of_a_picture_are_drawn_apart() -> None:
    found = [drawn(Byol(jitter=0.5, blur=(0.5, 0.5, 0.5)), number) for number in CROPS.values()]
    for place in (0, 4, 5):  # jitter, grey, blur
        names = [rounds[place].names != "identity" for rounds in found]
        for one, other in pairwise(names):
            expected = one.mean() * other.mean() + (1 - one.mean()) * (1 - other.mean())
            assert (one == other).mean() == pytest.approx(expected, abs=0.03)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"blur": (1.0, 0.1)}, "give three"),
        ({"solarise": (0.0, 1.2, 0.0)}, "1.2 is not a probability"),
        ({"grey": -0.1}, "-0.1 is not a probability"),
        ({"hue": 0.6}, "hue 0.6 is too strong: choose 0 to 0.5"),
        ({"saturation": 1.5}, "too strong"),
    ],
)
def test_settings_that_mean_nothing_are_refused(settings: dict, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        Byol(**settings)
