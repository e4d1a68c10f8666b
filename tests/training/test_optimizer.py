"""Ten updates by hand for every optimizer, and a state that comes back from a file to the same bits."""

import json
from collections.abc import Callable
from dataclasses import replace
from math import cos, pi
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_
from torch.optim import Optimizer

from patchwords.errors import ModelError, UsageError
from patchwords.models.build import build as build_model
from patchwords.models.names import Config
from patchwords.settings import read, write
from patchwords.training.groups import groups
from patchwords.training.optimizer import SGD, Adam, AdamW, Lamb, OptimizerKind, build, rates, restore, scaled, state
from patchwords.training.schedule import Schedule

CPU = torch.device("cpu")
Array = NDArray[np.float64]
Randomise = Callable[[nn.Module], nn.Module]

KINDS: dict[str, OptimizerKind] = {
    "adam": Adam(lr=0.01, decay=0.1, layer_decay=0.75),
    "adamw": AdamW(lr=0.01, decay=0.1, betas=(0.8, 0.95), layer_decay=0.75),
    "sgd": SGD(lr=0.1, decay=0.1, momentum=0.7, layer_decay=0.75),
    "lamb": Lamb(lr=0.01, decay=0.1, layer_decay=0.75),
}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> OptimizerKind:
    return KINDS[request.param]


# The decayed parameters of a ViT with two blocks, and the factor of each layer's rate at layer decay 3/4.
BLOCK = ("attention.qkv", "attention.out", "mlp.fc1", "mlp.fc2")
KERNELS = {f"encoder.blocks.{block}.{part}.weight" for block in (0, 1) for part in BLOCK}
KERNELS |= {"embed.patch.weight", "head.classifier.weight"}
FACTORS = {"embed": 0.75**3, "encoder.blocks.0": 0.75**2, "encoder.blocks.1": 0.75, "encoder.norm": 1.0, "head": 1.0}


def factor(name: str) -> float:
    return next(rate for prefix, rate in FACTORS.items() if name.startswith(f"{prefix}."))


def rate(step: int) -> float:
    """Three steps of warm-up, then seven of a cosine to a tenth."""
    return (step + 1) / 3 if step < 3 else 0.1 + 0.9 * (1 + cos(pi * (step - 3) / 7)) / 2


def by_hand(
    settings: Any, weight: Array, slots: dict[str, Array], gradient: Array, step: int, decays: bool, lr: float
) -> Array:
    """One update as the papers write it."""
    decay = settings.decay if decays else 0.0
    if settings.kind == "sgd":
        gradient = gradient + decay * weight
        slots["b"] = gradient if step == 0 else settings.momentum * slots["b"] + gradient
        return weight - lr * slots["b"]
    first, second = settings.betas
    gradient = gradient + (decay * weight if settings.kind == "adam" else 0)
    slots["m"] = first * slots.get("m", 0 * weight) + (1 - first) * gradient
    slots["v"] = second * slots.get("v", 0 * weight) + (1 - second) * gradient**2
    m, v = slots["m"] / (1 - first ** (step + 1)), slots["v"] / (1 - second ** (step + 1))
    if settings.kind == "lamb":
        r = m / (np.sqrt(v) + settings.epsilon) + decay * weight
        x_length, r_length = np.linalg.norm(weight), np.linalg.norm(r)
        trust = x_length / r_length if decays and x_length > 0 and r_length > 0 else 1
        return weight - lr * trust * r
    weight = weight * (1 - lr * decay) if settings.kind == "adamw" else weight
    return weight - lr * m / (np.sqrt(v) + settings.epsilon)


def gradients(model: nn.Module, config: Config, step: int) -> dict[str, Array]:
    """Fills the gradients, longer than 1 as a rule, and gives them in double precision."""
    generator = torch.Generator().manual_seed(step)
    images = torch.randn(4, config.channels, *config.image, generator=generator)
    model.zero_grad()
    loss = nn.functional.cross_entropy(model(images), torch.arange(4))
    (3 * loss).backward()
    return {name: parameter.grad.double().numpy() for name, parameter in model.named_parameters()}


@pytest.mark.parametrize("small_config", ["plain"], indirect=True)
def test_ten_steps_with_schedule_groups_and_clipping_are_those_by_hand(
    small_config: Config, kind: OptimizerKind, randomised: Randomise
) -> None:
    model = randomised(small_config.build())
    optimizer = build(kind, groups(model, decay=kind.decay, layer_decay=kind.layer_decay), CPU)
    plan = Schedule(warmup="3 steps", floor=0.1).plan(total=10, per_epoch=1.0)
    wanted = {name: parameter.detach().double().numpy() for name, parameter in model.named_parameters()}
    start, slots, clipped = dict(wanted), {name: {} for name in wanted}, 0
    for step in range(10):
        given = gradients(model, small_config, step)
        norm = np.sqrt(sum((gradient**2).sum() for gradient in given.values()))
        clipped += norm > 1
        for name, gradient in given.items():
            lr = kind.lr * rate(step) * factor(name)
            gradient = gradient * min(1, 1 / (norm + 1e-6))
            wanted[name] = by_hand(kind, wanted[name], slots[name], gradient, step, name in KERNELS, lr)
        clip_grad_norm_(model.parameters(), 1.0)
        for group in optimizer.param_groups:
            group["lr"] = kind.lr * plan.rate(step) * group["scale"]
        optimizer.step()
    assert clipped > 5
    for name, parameter in model.named_parameters():
        np.testing.assert_allclose(
            parameter.detach().double().numpy(), wanted[name], rtol=2e-6, atol=2e-6, err_msg=name
        )
        assert abs(wanted[name] - start[name]).max() > 1e-4, name


def test_every_group_begins_at_its_factor_of_the_rate(kind: OptimizerKind) -> None:
    model = build_model("ViT-Digits/2")
    optimizer = build(kind, groups(model, decay=0.1, layer_decay=0.5), CPU)
    assert {group["lr"] for group in optimizer.param_groups} == {kind.lr * 0.5**layer for layer in range(6)}
    assert {group["weight_decay"] for group in optimizer.param_groups} == {0.0, 0.1}


def test_the_rate_is_scaled_by_the_batch_only_if_the_recipe_says_for_which_it_is_meant() -> None:
    assert scaled(AdamW(lr=5e-4, per=512), batch=1024) == 1e-3
    assert scaled(AdamW(lr=5e-4), batch=1024) == 5e-4


# The state.


def started(kind: OptimizerKind) -> tuple[nn.Module, Optimizer]:
    torch.manual_seed(3)
    model = build_model("ViT-Digits/2")
    return model, build(kind, groups(model, decay=kind.decay, layer_decay=kind.layer_decay), CPU)


def train(model: nn.Module, optimizer: Optimizer, steps: range) -> None:
    for step in steps:
        gradients(model, model.config, step)
        for group in optimizer.param_groups:
            group["lr"] = 0.01 * group["scale"] / (1 + step)
        optimizer.step()


def through_files(folder: Path, optimizer: Optimizer) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The state as a checkpoint keeps it."""
    tensors, scalars = state(optimizer)
    save_file(tensors, folder / "optimizer.safetensors")
    (folder / "state.json").write_text(json.dumps(scalars))
    return load_file(folder / "optimizer.safetensors"), json.loads((folder / "state.json").read_text())


def same(first: dict[str, Tensor], second: dict[str, Tensor]) -> bool:
    return first.keys() == second.keys() and all(
        torch.equal(first[name], second[name]) and first[name].dtype == second[name].dtype for name in first
    )


@pytest.mark.parametrize("steps", [0, 1, 4])
def test_a_restored_optimizer_goes_on_to_the_same_bits(kind: OptimizerKind, steps: int, tmp_path: Path) -> None:
    model, optimizer = started(kind)
    train(model, optimizer, range(steps))
    files = through_files(tmp_path, optimizer)
    other, again = started(kind)
    other.load_state_dict(model.state_dict())
    restore(again, *files)
    assert same(state(optimizer)[0], state(again)[0])
    assert state(optimizer)[1] == state(again)[1]
    train(model, optimizer, range(steps, steps + 3))
    train(other, again, range(steps, steps + 3))
    assert same(model.state_dict(), other.state_dict())
    assert same(state(optimizer)[0], state(again)[0])


@pytest.mark.gpu
def test_a_state_moves_to_the_gpu_and_back(kind: OptimizerKind) -> None:
    model, optimizer = started(kind)
    train(model, optimizer, range(2))
    tensors, scalars = state(optimizer)
    there = build_model("ViT-Digits/2").cuda()
    moved = build(kind, groups(there, decay=kind.decay, layer_decay=kind.layer_decay), torch.device("cuda"))
    restore(moved, tensors, scalars)
    found, again = state(moved)
    assert same({name: tensor.cpu() for name, tensor in found.items()}, tensors)
    assert [group["names"] for group in again["groups"]] == [group["names"] for group in scalars["groups"]]
    assert [group["lr"] for group in again["groups"]] == pytest.approx([group["lr"] for group in scalars["groups"]])
    assert (again["kind"], again["slots"]) == (scalars["kind"], scalars["slots"])
    assert {tensor.device.type for name, tensor in found.items() if not name.endswith(".step")} == {"cuda"}
    for parameter in there.parameters():
        parameter.grad = torch.ones_like(parameter)
    moved.step()
    _, back = started(kind)
    restore(back, {name: tensor.cpu() for name, tensor in state(moved)[0].items()}, state(moved)[1])
    assert same({name: tensor.cpu() for name, tensor in state(moved)[0].items()}, state(back)[0])


def test_the_state_is_named_by_parameter_and_slot() -> None:
    model, optimizer = started(KINDS["adamw"])
    train(model, optimizer, range(2))
    tensors, scalars = state(optimizer)
    names = [name for name, _ in model.named_parameters()]
    assert sorted(tensors) == sorted(f"{name}.{slot}" for name in names for slot in ("exp_avg", "exp_avg_sq", "step"))
    assert tensors["embed.patch.weight.step"].item() == 2
    assert tensors["embed.patch.weight.exp_avg"].shape == (64, 1, 2, 2)
    assert scalars["kind"] == "AdamW"


def test_restoring_replaces_what_was_there_and_takes_copies() -> None:
    model, optimizer = started(KINDS["sgd"])
    train(model, optimizer, range(2))
    tensors, scalars = state(optimizer)
    kept = {name: tensor.clone() for name, tensor in tensors.items()}
    other, again = started(KINDS["sgd"])
    train(other, again, range(3))
    restore(again, kept, scalars)
    assert same(state(again)[0], kept)
    train(other, again, range(1))
    assert same(tensors, kept)


def test_rates_that_are_tensors_stay_the_tensors_that_they_are() -> None:
    """As they are on a GPU, where a step that was recorded reads them."""
    model, optimizer = started(KINDS["adamw"])
    plain, numbers = started(KINDS["adamw"])
    for group in optimizer.param_groups:
        group["lr"] = torch.tensor(group["lr"])
    kept = [group["lr"] for group in optimizer.param_groups]
    for step in range(3):
        for each, some in ((model, optimizer), (plain, numbers)):
            for parameter in each.parameters():
                parameter.grad = torch.full_like(parameter, 1.0 + step)
            rates(some, 0.01 / (1 + step))
            some.step()
    assert all(group["lr"] is lr for group, lr in zip(optimizer.param_groups, kept, strict=True))
    for name, tensor in plain.state_dict().items():
        torch.testing.assert_close(model.state_dict()[name], tensor)
    tensors, scalars = state(optimizer)
    json.dumps(scalars)
    saved = {name: tensor.clone() for name, tensor in tensors.items()}
    rates(optimizer, 1.0)
    restore(optimizer, saved, scalars)
    assert all(group["lr"] is lr for group, lr in zip(optimizer.param_groups, kept, strict=True))
    assert [float(lr) for lr in kept] == [group["lr"] for group in scalars["groups"]]
    restore(numbers, saved, scalars)  # and a CPU goes on with it
    assert [group["lr"] for group in numbers.param_groups] == [group["lr"] for group in scalars["groups"]]


def test_parameters_without_a_gradient_have_no_state_and_need_none(tmp_path: Path) -> None:
    model, optimizer = started(KINDS["adam"])
    gradients(model, model.config, 0)
    model.get_parameter("head.classifier.bias").grad = None
    optimizer.step()
    tensors, scalars = through_files(tmp_path, optimizer)
    assert not [name for name in tensors if name.startswith("head.classifier.bias")]
    _, again = started(KINDS["adam"])
    restore(again, tensors, scalars)
    assert same(state(again)[0], tensors)


@pytest.mark.parametrize(
    ("fault", "sentence"),
    [
        ("missing", r"head\.classifier\.bias\.exp_avg is missing \(1 such\)"),
        ("extra", r"head\.classifier\.bias\.more belongs to nothing"),
        ("unknown parameter", r"tail belongs to nothing"),
        ("shape", r"head\.classifier\.bias\.exp_avg is \[3\], not \[10\]"),
        ("kind", "the saved optimizer is AdamW, this one is SGD"),
        ("groups", "other groups of parameters"),
    ],
)
def test_a_state_that_does_not_fit_is_refused_and_nothing_is_changed(fault: str, sentence: str) -> None:
    model, optimizer = started(KINDS["adamw"])
    train(model, optimizer, range(1))
    tensors, scalars = state(optimizer)
    other = started(KINDS["sgd" if fault == "kind" else "adamw"])[1]
    if fault == "missing":
        del tensors["head.classifier.bias.exp_avg"]
    elif fault == "extra":
        tensors["head.classifier.bias.more"] = torch.zeros(10)
    elif fault == "unknown parameter":
        scalars["slots"]["tail"] = {"count": 1}
    elif fault == "shape":
        tensors["head.classifier.bias.exp_avg"] = torch.zeros(3)
    elif fault == "groups":
        small = build_model("ViT-Digits/2", classes=3)
        other = build(KINDS["adamw"], groups(small, decay=0.1, layer_decay=1.0), CPU)
    with pytest.raises(ModelError, match=sentence):
        restore(other, tensors, scalars)
    assert state(other)[0] == {}


# The settings.


@pytest.mark.parametrize("settings", [Adam(), AdamW(), SGD(), Lamb()])
def test_settings_are_read_as_they_are_written(settings: OptimizerKind) -> None:
    assert read(write(settings), type(settings)) == settings


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"lr": 0.0}, "lr 0.0 is no learning rate"),
        ({"lr": float("nan")}, "lr nan is no learning rate"),
        ({"decay": -0.1}, "decay -0.1 is no weight decay"),
        ({"betas": (0.9,)}, r"betas \[0.9\] are not two numbers"),
        ({"betas": (0.9, 1.0)}, r"betas \[0.9, 1.0\] are not two numbers"),
        ({"epsilon": 0.0}, "epsilon 0.0 is not between"),
        ({"per": -1}, "per -1 is below 0"),
        ({"layer_decay": 1.5}, "layer_decay 1.5 is no factor"),
    ],
)
def test_wrong_settings_are_refused(wrong: dict[str, Any], sentence: str) -> None:
    for settings in (Adam(), AdamW(), Lamb()):
        with pytest.raises(UsageError, match=sentence):
            replace(settings, **wrong)


def test_a_momentum_of_one_is_refused() -> None:
    with pytest.raises(UsageError, match=r"momentum 1\.0 is not from 0"):
        SGD(momentum=1.0)
