"""Recomputation changes memory and nothing else."""

from collections import Counter
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from patchwords.layers.unit import Unit
from patchwords.models.names import Config
from patchwords.speed.recompute import recompute

Randomise = Callable[[nn.Module], nn.Module]


def gradients(model: nn.Module, images: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    """Output and gradients of one training step from a fixed state of the random numbers."""
    model.zero_grad()
    torch.manual_seed(5)
    output = model(images)
    output.square().sum().backward()
    learn = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    return output.detach(), {name: parameter.grad.clone() for name, parameter in learn.items()}


def saved_bytes(model: nn.Module, images: Tensor) -> int:
    """What the backward pass keeps, parameters not counted."""
    parameters = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    kept: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in parameters:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with saved_tensors_hooks(note, lambda tensor: tensor):
        output = model(images)  # noqa: F841  # keeps the graph, and so the addresses, alive
    return sum(kept.values())


@pytest.fixture
def model(small_config: Config, randomised: Randomise) -> nn.Module:
    return randomised(small_config.build()).train()


@pytest.fixture
def images(small_config: Config) -> Tensor:
    return torch.randn(4, small_config.channels, *small_config.image)


def test_gradients_are_the_same_bit_for_bit(model: nn.Module, images: Tensor) -> None:
    output, wanted = gradients(model, images)
    recompute(model)
    again, found = gradients(model, images)
    assert torch.equal(output, again)
    assert [name for name in wanted if not torch.equal(wanted[name], found[name])] == []


def test_fewer_bytes_are_saved_for_the_backward_pass(model: nn.Module, images: Tensor) -> None:
    before = saved_bytes(model, images)
    recompute(model)
    assert saved_bytes(model, images) < 0.8 * before


@pytest.mark.parametrize("small_config", ["regularised"], indirect=True)
def test_chance_takes_part_in_what_is_compared(model: nn.Module, images: Tensor) -> None:
    recompute(model)
    torch.manual_seed(1)
    first = model(images)
    assert not torch.equal(first, model(images))


@pytest.mark.parametrize("small_config", ["plain", "axial", "hybrid", "resnet pre"], indirect=True)
def test_each_unit_runs_once_more_in_the_backward_pass(model: nn.Module, images: Tensor) -> None:
    calls: Counter[str] = Counter()
    for name, module in model.named_modules():
        if name.endswith(("norm1", "conv1")):  # every unit has one or both
            module.register_forward_hook(lambda *_, name=name: calls.update([name]))
    model(images).sum().backward()
    assert set(calls.values()) == {1}
    recompute(model)
    calls.clear()
    model(images).sum().backward()
    assert {name: times for name, times in calls.items() if times != 2} == {}


def test_names_and_state_stay(model: nn.Module, images: Tensor) -> None:
    before = [name for name, _ in model.named_modules()], list(model.state_dict())
    recompute(model)
    assert ([name for name, _ in model.named_modules()], list(model.state_dict())) == before


@pytest.mark.parametrize("small_config", ["plain"], indirect=True)
def test_asking_twice_is_asking_once(model: nn.Module, images: Tensor) -> None:
    recompute(model)
    once = saved_bytes(model, images)
    forwards = [vars(unit)["forward"] for unit in model.modules() if isinstance(unit, Unit)]
    recompute(model)
    assert [vars(unit)["forward"] for unit in model.modules() if isinstance(unit, Unit)] == forwards
    assert saved_bytes(model, images) == once


@pytest.mark.parametrize("small_config", ["plain", "hybrid"], indirect=True)
def test_other_models_are_left_alone(small_config: Config, model: nn.Module, images: Tensor) -> None:
    other = small_config.build()
    before = saved_bytes(other, images)
    recompute(model)
    assert saved_bytes(other, images) == before


@pytest.mark.parametrize("small_config", ["plain", "hybrid", "relative"], indirect=True)
def test_a_recomputing_model_is_still_one_graph(model: nn.Module, images: Tensor) -> None:
    recompute(model)
    torch.compiler.reset()
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(images), model(images), rtol=1e-4, atol=1e-5)
    torch.compiler.reset()
