"""The moving average by hand, and the model that comes back from it."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from patchwords.errors import ModelError
from patchwords.models.build import build
from patchwords.models.names import Config
from patchwords.training.average import Average


def tiny() -> nn.Module:
    """A model with a buffer that is a number and one that is a count."""
    model = nn.Linear(3, 2)
    model.register_buffer("mean", torch.zeros(3))
    model.register_buffer("seen", torch.tensor(0))
    return model


@torch.no_grad()
def moved(model: nn.Module) -> None:
    for tensor in model.state_dict().values():
        tensor += 1 if not tensor.is_floating_point() else torch.randn(tensor.shape)


def values(model: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def same(first: dict[str, Tensor], second: dict[str, Tensor]) -> bool:
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("decay", [0.0, 0.3, 0.9999])
def test_the_average_is_the_recurrence_written_out(decay: float) -> None:
    model = tiny()
    average = Average(model, decay)
    wanted = {name: tensor.double() for name, tensor in values(model).items()}
    for step in range(10):
        moved(model)
        average.update(step)
        kept = min(decay, (1 + step) / (10 + step))
        for name, tensor in values(model).items():
            wanted[name] = kept * wanted[name] + (1 - kept) * tensor.double() if name != "seen" else tensor.double()
    found = average.state()
    assert found["seen"].item() == 10
    for name, tensor in wanted.items():
        torch.testing.assert_close(found[name].double(), tensor, rtol=1e-5, atol=1e-6)


def test_the_average_keeps_less_of_the_start_at_first() -> None:
    model = tiny()
    average = Average(model, 0.9999)
    start = values(model)["weight"]
    moved(model)
    average.update(0)
    torch.testing.assert_close(average.state()["weight"], 0.1 * start + 0.9 * model.weight.detach())


def test_inside_the_model_is_the_average_and_afterwards_what_it_was(
    small_config: Config, randomised: Callable[[nn.Module], nn.Module]
) -> None:
    model = randomised(small_config.build())
    average = Average(model, 0.5)
    moved(model)
    average.update(20)
    before, wanted = values(model), {name: tensor.clone() for name, tensor in average.state().items()}
    assert not same(before, wanted)
    with average.applied(model):
        assert same(values(model), wanted)
    assert same(values(model), before)
    assert same(average.state(), wanted)


def test_the_model_comes_back_from_a_failure_too() -> None:
    model = build("ViT-Digits/2")
    average = Average(model, 0.5)
    moved(model)
    before = values(model)
    with pytest.raises(KeyError), average.applied(model):
        raise KeyError
    assert same(values(model), before)


def test_parameters_stay_the_same_objects_so_that_the_optimizer_still_knows_them() -> None:
    model = build("ViT-Digits/2")
    before = [(parameter, parameter.data_ptr()) for parameter in model.parameters()]
    with Average(model, 0.5).applied(model):
        pass
    now = [(parameter, parameter.data_ptr()) for parameter in model.parameters()]
    assert all(old is new and at == still for (old, at), (new, still) in zip(before, now, strict=True))


def test_a_restored_average_goes_on_to_the_same_bits() -> None:
    model = build("ViT-Digits/2")
    first = Average(model, 0.9)
    for step in range(3):
        moved(model)
        first.update(step)
    saved = {name: tensor.clone() for name, tensor in first.state().items()}
    second = Average(model, 0.9)
    second.restore(saved)
    moved(model)
    first.update(3)
    second.update(3)
    assert same(first.state(), second.state())
    assert not same(first.state(), saved)


def test_copying_the_average_makes_the_model_the_average() -> None:
    model, other = build("ViT-Digits/2"), build("ViT-Digits/2")
    Average(model, 0.9).copy_to(other)
    assert same(values(model), values(other))


@pytest.mark.parametrize("fault", ["missing", "extra", "shape", "kind"])
def test_an_average_of_another_model_is_refused_and_nothing_is_changed(fault: str) -> None:
    average = Average(build("ViT-Digits/2"), 0.9)
    before = {name: tensor.clone() for name, tensor in average.state().items()}
    wrong = {name: tensor + 1 for name, tensor in before.items()}
    if fault == "missing":
        del wrong["head.classifier.bias"]
    elif fault == "extra":
        wrong["head.more"] = torch.zeros(1)
    elif fault == "shape":
        wrong["head.classifier.bias"] = torch.zeros(3)
    else:
        wrong["head.classifier.bias"] = torch.zeros(10, dtype=torch.float64)
    with pytest.raises(ModelError, match=r"does not fit the model at head\."):
        average.restore(wrong)
    assert same(average.state(), before)
