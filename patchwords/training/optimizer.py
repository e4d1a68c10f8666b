"""The optimizers, torch's Adam, AdamW and SGD, and LAMB: what a recipe says of each, their state in plain tables."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.optim import Optimizer

from patchwords.errors import ModelError, UsageError
from patchwords.settings import at_least
from patchwords.training import lamb
from patchwords.training.groups import Group


@dataclass(frozen=True, kw_only=True, slots=True)
class Adam:
    """Adam with the decay inside the gradient (L2), as first published."""

    kind: ClassVar[str] = "adam"
    lr: float = 1e-3
    decay: float = 0.0
    betas: tuple[float, ...] = (0.9, 0.999)
    epsilon: float = 1e-8
    per: int = 0  # the batch that `lr` is meant for, and scaled from; 0: `lr` is meant as it is
    layer_decay: float = 1.0

    def __post_init__(self) -> None:
        _check_rates(self.lr, self.decay, self.per, self.layer_decay)
        _check_moments(self.betas, self.epsilon)

    def build(self, groups: list[Group], device: torch.device) -> Optimizer:
        return torch.optim.Adam(groups, self.lr, _pair(self.betas), self.epsilon, **_kernels(device))


@dataclass(frozen=True, kw_only=True, slots=True)
class AdamW:
    """Adam with the decay beside the gradient: every step takes lr · decay of a weight away."""

    kind: ClassVar[str] = "adamw"
    lr: float = 1e-3
    decay: float = 0.05
    betas: tuple[float, ...] = (0.9, 0.999)
    epsilon: float = 1e-8
    per: int = 0
    layer_decay: float = 1.0

    def __post_init__(self) -> None:
        _check_rates(self.lr, self.decay, self.per, self.layer_decay)
        _check_moments(self.betas, self.epsilon)

    def build(self, groups: list[Group], device: torch.device) -> Optimizer:
        return torch.optim.AdamW(groups, self.lr, _pair(self.betas), self.epsilon, **_kernels(device))


@dataclass(frozen=True, kw_only=True, slots=True)
class SGD:
    """Gradient descent with momentum; the decay is inside the gradient."""

    kind: ClassVar[str] = "sgd"
    lr: float = 0.01
    decay: float = 0.0
    momentum: float = 0.9
    per: int = 0
    layer_decay: float = 1.0

    def __post_init__(self) -> None:
        _check_rates(self.lr, self.decay, self.per, self.layer_decay)
        if not 0 <= self.momentum < 1:
            raise UsageError(f"momentum {self.momentum} is not from 0 up to, but below, 1")

    def build(self, groups: list[Group], device: torch.device) -> Optimizer:
        return torch.optim.SGD(groups, self.lr, self.momentum, fused=device.type in FUSED)


@dataclass(frozen=True, kw_only=True, slots=True)
class Lamb:
    """Adam's update with the decay added, scaled to the length of each weight (You et al., 2020): for large batches."""

    kind: ClassVar[str] = "lamb"
    lr: float = 4e-3
    decay: float = 0.05
    betas: tuple[float, ...] = (0.9, 0.999)
    epsilon: float = 1e-6
    per: int = 0
    layer_decay: float = 1.0

    def __post_init__(self) -> None:
        _check_rates(self.lr, self.decay, self.per, self.layer_decay)
        _check_moments(self.betas, self.epsilon)

    def build(self, groups: list[Group], device: torch.device) -> Optimizer:
        return lamb.Lamb(groups, self.lr, _pair(self.betas), self.epsilon)


OptimizerKind = Adam | AdamW | SGD | Lamb
FUSED = ("cpu", "cuda")  # the devices whose fused kernels are tested here


def build(settings: OptimizerKind, groups: list[Group], device: torch.device) -> Optimizer:
    """The optimizer of `groups.groups` for parameters on this device, each group at its own factor of the rate.

    Fused where torch has the kernel: one pass over the memory, several times faster on a CPU too, and elementwise,
    so that the same threads give the same bits. On a GPU the rates are tensors: a step that is replayed reads them.
    """
    rated = [group | {"lr": settings.lr * group["scale"]} for group in groups]
    if device.type == "cuda":
        rated = [group | {"lr": torch.tensor(group["lr"], device=device)} for group in rated]
    return settings.build(rated, device)


def rates(optimizer: Optimizer, rate: float) -> None:
    """Sets every group's learning rate: the schedule's, times the group's own factor."""
    for group in optimizer.param_groups:
        _set_rate(group, rate * group["scale"])


def scaled(settings: OptimizerKind, batch: int) -> float:
    """The highest learning rate: in proportion to the batch where the recipe says which one `lr` is meant for."""
    return settings.lr * batch / settings.per if settings.per else settings.lr


def state(optimizer: Optimizer) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """All that an optimizer remembers: tensors by "parameter.slot", and what is no tensor as a table for JSON."""
    names = _names(optimizer)
    slots = {names[parameter]: dict(memory) for parameter, memory in optimizer.state.items() if memory}
    tensors = {
        f"{name}.{slot}": _own(value)
        for name, memory in slots.items()
        for slot, value in memory.items()
        if isinstance(value, Tensor)
    }
    scalars = {
        "kind": type(optimizer).__name__,
        "groups": [{"names": group["names"], "lr": float(group["lr"])} for group in optimizer.param_groups],
        "slots": {
            name: {slot: None if isinstance(value, Tensor) else value for slot, value in memory.items()}
            for name, memory in slots.items()
        },
    }
    return tensors, scalars


def restore(optimizer: Optimizer, tensors: Mapping[str, Tensor], scalars: Mapping[str, Any]) -> None:
    """What `state` gave, taken back by an optimizer of the same parameters, on whatever device they are now."""
    _check_fit(optimizer, tensors, scalars)
    table, kept = optimizer.state_dict(), [group["lr"] for group in optimizer.param_groups]
    numbers = {name: number for number, name in enumerate(_names(optimizer).values())}  # as torch counts them
    table["state"] = {
        numbers[name]: {
            slot: tensors[f"{name}.{slot}"].clone() if value is None else value for slot, value in memory.items()
        }
        for name, memory in scalars["slots"].items()
    }
    optimizer.load_state_dict(table)
    for group, lr, given in zip(optimizer.param_groups, kept, scalars["groups"], strict=True):
        group["lr"] = lr  # not the copy that torch makes of it
        _set_rate(group, given["lr"])


def _set_rate(group: Group, rate: float) -> None:
    if isinstance(group["lr"], Tensor):
        group["lr"].fill_(rate)
    else:
        group["lr"] = rate


def _kernels(device: torch.device) -> dict[str, bool]:
    """Of Adam's."""
    return {"fused": device.type in FUSED, "capturable": device.type == "cuda"}


def _check_fit(optimizer: Optimizer, tensors: Mapping[str, Tensor], scalars: Mapping[str, Any]) -> None:
    kind = type(optimizer).__name__
    if scalars["kind"] != kind:
        raise ModelError(f"the saved optimizer is {scalars['kind']}, this one is {kind}: resume with the same recipe")
    if [group["names"] for group in scalars["groups"]] != [group["names"] for group in optimizer.param_groups]:
        raise ModelError("the saved optimizer has other groups of parameters: resume with the same model and recipe")
    shapes = {name: parameter.shape for parameter, name in _names(optimizer).items()}
    named = {f"{name}.{slot}" for name, memory in scalars["slots"].items() for slot in memory if memory[slot] is None}
    if wrong := sorted((named ^ tensors.keys()) | (scalars["slots"].keys() - shapes.keys())):
        fault = "is missing" if wrong[0] in named else "belongs to nothing"
        raise ModelError(f"the saved optimizer is damaged: {wrong[0]} {fault} ({len(wrong)} such)")
    for key, tensor in tensors.items():
        shape = shapes[key.rpartition(".")[0]]
        if tensor.shape not in (shape, ()):  # as the parameter, or a count
            raise ModelError(f"the saved optimizer does not fit: {key} is {list(tensor.shape)}, not {list(shape)}")


def _names(optimizer: Optimizer) -> dict[Tensor, str]:
    groups = optimizer.param_groups
    return {
        parameter: name for group in groups for parameter, name in zip(group["params"], group["names"], strict=True)
    }


def _own(tensor: Tensor) -> Tensor:
    """A tensor that shares its memory with no other, as files want it."""
    return tensor.detach() if tensor.untyped_storage().nbytes() == tensor.nbytes else tensor.detach().clone()


def _pair(betas: tuple[float, ...]) -> tuple[float, float]:
    return betas[0], betas[1]


def _check_rates(lr: float, decay: float, per: int, layer_decay: float) -> None:
    if not 0 < lr < math.inf:
        raise UsageError(f"lr {lr} is no learning rate: choose one above 0")
    if not 0 <= decay < math.inf:
        raise UsageError(f"decay {decay} is no weight decay: choose 0 or more")
    at_least(0, per=per)
    if not 0 < layer_decay <= 1:
        raise UsageError(f"layer_decay {layer_decay} is no factor from layer to layer: choose one above 0 and up to 1")


def _check_moments(betas: tuple[float, ...], epsilon: float) -> None:
    if len(betas) != 2 or not all(0 <= beta < 1 for beta in betas):
        raise UsageError(f"betas {list(betas)} are not two numbers from 0 up to, but below, 1")
    if not 0 < epsilon < 1:
        raise UsageError(f"epsilon {epsilon} is not between 0 and 1")
