"""Losses that are no numbers are found within ten steps, with one wait for the device in ten."""

import math

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from patchwords.training.guard import EVERY, Bad, Guard

FINE = torch.tensor(1.5)
WRONG = [math.nan, math.inf, -math.inf]


class Waits(TorchDispatchMode):
    """Counts what would make a program wait for its device."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        names = ("_local_scalar_dense", "nonzero", "_to_copy", "item", "equal")
        self.count += func.overloadpacket.__name__ in names
        return func(*args, **(kwargs or {}))


def test_a_look_is_due_every_ten_steps() -> None:
    guard = Guard(norms=True)
    assert EVERY == 10
    for step in range(EVERY):
        assert not guard.due()
        guard.add(step, FINE, FINE)
    assert guard.due()
    assert guard.look() is None
    assert not guard.due()


@pytest.mark.parametrize("value", WRONG)
@pytest.mark.parametrize("place", ["loss", "norm"])
@pytest.mark.parametrize("step", [0, 4, 9])
def test_the_first_step_that_was_not_finite_is_found(step: int, place: str, value: float) -> None:
    guard, wrong = Guard(norms=True), torch.tensor(value)
    for number in range(EVERY):
        bad = number >= step
        guard.add(100 + number, wrong if bad and place == "loss" else FINE, wrong if bad and place == "norm" else FINE)
    found = guard.look()
    assert found is not None
    assert found.step == 100 + step
    told = found.loss if place == "loss" else found.norm
    assert str(told) == str(value)
    assert (found.norm if place == "loss" else found.loss) == 1.5


def test_after_a_look_everything_is_forgotten() -> None:
    guard = Guard(norms=True)
    guard.add(3, torch.tensor(math.nan), FINE)
    assert guard.look() is not None
    assert guard.look() is None
    guard.add(4, FINE, FINE)
    assert guard.look() is None


def test_nothing_seen_is_nothing_found() -> None:
    assert Guard(norms=True).look() is None


def test_with_a_scaler_infinite_norms_are_its_own_business_but_losses_are_not() -> None:
    guard = Guard(norms=False)
    guard.add(0, FINE, torch.tensor(math.inf))
    assert guard.look() is None
    guard.add(1, torch.tensor(math.nan), FINE)
    found = guard.look()
    assert isinstance(found, Bad)
    assert found.step == 1


def test_adding_does_not_wait_for_the_device() -> None:
    guard = Guard(norms=True)
    losses: list[Tensor] = [torch.rand(()) for _ in range(EVERY)]
    with Waits() as waits:
        for step, loss in enumerate(losses):
            guard.add(step, loss, loss * 2)
    assert waits.count == 0
    assert all(values.shape == (2,) for values in guard.values)


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16, torch.float64])
def test_losses_of_any_kind_are_remembered(kind: torch.dtype) -> None:
    guard = Guard(norms=True)
    guard.add(0, FINE.to(kind), FINE)
    assert guard.look() is None
