"""What is done to a module from outside leaves its names and values alone."""

from functools import partial

import pytest
import torch

from patchwords.layers.unit import Unit
from patchwords.models.names import Config
from patchwords.objectives.supervised import Classification, Supervised
from patchwords.speed.prepare import prepare

pytestmark = pytest.mark.parametrize("small_config", ["plain", "hybrid"], indirect=True)


@pytest.fixture(autouse=True)
def plain_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the generation of code, which needs a C compiler and minutes."""
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="eager"))


@pytest.fixture
def objective(small_config: Config) -> Classification:
    return Classification(small_config.build(), Supervised())


def recomputed(objective: Classification) -> list[bool]:
    return ["forward" in vars(each) for each in objective.modules() if isinstance(each, Unit)]


def is_compiled(objective: Classification) -> bool:
    return objective._compiled_call_impl is not None


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("again", [False, True])
def test_each_is_done_where_it_is_asked_for_and_nowhere_else(
    objective: Classification, again: bool, compiled: bool
) -> None:
    prepare(objective, recomputed=again, compiled=compiled)
    assert all(recomputed(objective)) if again else not any(recomputed(objective))
    assert is_compiled(objective) == compiled
    assert not any(each._compiled_call_impl is not None for each in objective.model.modules())  # one graph, not many


def test_names_values_and_modes_stay(objective: Classification) -> None:
    before = {name: each.clone() for name, each in objective.state_dict().items()}
    prepare(objective, recomputed=True, compiled=True)
    after = objective.state_dict()
    assert list(after) == list(before)
    assert all(torch.equal(after[name], before[name]) for name in before)
    assert objective.training


def test_the_compiler_sees_the_recomputation(objective: Classification, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[bool]] = []
    monkeypatch.setattr(Classification, "compile", lambda self: seen.append(recomputed(self)))
    prepare(objective, recomputed=True, compiled=True)
    assert len(seen) == 1
    assert all(seen[0])


def test_the_loss_is_the_same_when_units_run_again(objective: Classification, small_config: Config) -> None:
    batch = {"image": torch.rand(2, 3, *small_config.image), "target": torch.eye(5)[:2]}
    before, _ = objective(batch)
    prepare(objective, recomputed=True, compiled=False)
    after, _ = objective(batch)
    assert torch.equal(before, after)
    after.backward()
    assert all(each.grad is not None for each in objective.parameters())
