"""The learning rate by hand, step by step."""

from dataclasses import replace
from math import cos, pi, sqrt

import pytest

from patchwords.errors import UsageError
from patchwords.training.schedule import Plan, Schedule

SHAPES = ["cosine", "linear", "constant", "rsqrt"]


def rates(schedule: Schedule, total: int) -> list[float]:
    plan = schedule.plan(total=total, per_epoch=2.5)
    return [plan.rate(step) for step in range(total)]


def test_cosine_after_a_warm_up() -> None:
    wanted = [1 / 4, 2 / 4, 3 / 4, 1] + [(1 + cos(pi * i / 6)) / 2 for i in range(6)]
    assert rates(Schedule(warmup="4 steps"), 10) == pytest.approx(wanted, rel=1e-12)


def test_cosine_to_a_floor() -> None:
    wanted = [0.01 + 0.99 * (1 + cos(pi * i / 10)) / 2 for i in range(10)]
    assert rates(Schedule(floor=0.01), 10) == pytest.approx(wanted, rel=1e-12)


def test_linear_after_a_warm_up_that_begins_above_zero() -> None:
    wanted = [0.2 + 0.8 * 1 / 2, 1.0, 1.0, 1 - 0.9 / 8, 1 - 1.8 / 8, 1 - 2.7 / 8, 1 - 3.6 / 8]
    wanted += [1 - 4.5 / 8, 1 - 5.4 / 8, 1 - 6.3 / 8]
    assert rates(Schedule(warmup="2 steps", shape="linear", start=0.2, floor=0.1), 10) == pytest.approx(wanted)


def test_constant_with_cool_down() -> None:
    assert rates(Schedule(shape="constant", cooldown="4 steps"), 8) == [1, 1, 1, 1, 1, 0.75, 0.5, 0.25]


def test_reciprocal_square_root_takes_its_timescale_from_the_warm_up() -> None:
    plan = Schedule(warmup="100 steps", shape="rsqrt", cooldown="50 steps").plan(total=1000, per_epoch=1.0)
    assert plan.rate(99) == plan.rate(100) == 1.0
    assert plan.rate(400) == pytest.approx(sqrt(100 / 400))
    assert plan.rate(949) == pytest.approx(sqrt(100 / 949))
    assert plan.rate(975) == pytest.approx(sqrt(100 / 975) * 25 / 50)
    assert plan.rate(999) == pytest.approx(sqrt(100 / 999) / 50)


def test_reciprocal_square_root_without_warm_up_has_the_timescale_of_big_vision() -> None:
    plan = Schedule(shape="rsqrt", floor=0.4).plan(total=100_000, per_epoch=1.0)
    assert plan.rate(0) == 1.0
    assert plan.rate(30_000) == pytest.approx(0.5)
    assert plan.rate(99_999) == 0.4


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("warmup", ["0 steps", "1 step", "2 epochs", "100%"])
@pytest.mark.parametrize("cooldown", ["0 steps", "1 step", "30%"])
def test_no_update_is_wasted_and_none_is_above_the_rate(shape: str, warmup: str, cooldown: str) -> None:
    if warmup == "100%":
        cooldown = "0 steps"
    found = rates(Schedule(warmup=warmup, shape=shape, cooldown=cooldown), 20)
    assert all(0 < factor <= 1 for factor in found)
    assert max(found) == 1


@pytest.mark.parametrize("shape", SHAPES)
def test_the_shape_falls_after_the_warm_up(shape: str) -> None:
    found = rates(Schedule(warmup="5 steps", shape=shape, cooldown="3 steps"), 20)
    assert found[:5] == sorted(found[:5])
    assert found[5:] == sorted(found[5:], reverse=True)


def test_durations_are_those_of_the_training() -> None:
    schedule = Schedule(warmup="2 epochs", cooldown="10%")
    assert schedule.plan(total=100, per_epoch=2.5) == Plan("cosine", 100, 5, 10, 0.0, 0.0)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"warmup": "5 foo"}, "'5 foo' is no duration"),
        ({"cooldown": "soon"}, "'soon' is no duration"),
        ({"shape": "cosin"}, "'cosin' is not one of cosine, linear, constant, rsqrt; did you mean cosine"),
        ({"start": -0.1}, "start -0.1 is no factor"),
        ({"floor": 1.5}, "floor 1.5 is no factor"),
    ],
)
def test_wrong_settings_are_refused(wrong: dict[str, object], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        replace(Schedule(), **wrong)


def test_a_warm_up_longer_than_the_training_is_refused() -> None:
    with pytest.raises(UsageError, match="13 steps, the whole training has 12: shorten schedule"):
        Schedule(warmup="5 epochs").plan(total=12, per_epoch=2.5)
