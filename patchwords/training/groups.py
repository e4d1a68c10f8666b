"""Which parameters decay, which learn more slowly, and which do not learn at all."""

import re
from collections.abc import Iterator
from typing import Any

from torch import nn

from patchwords.errors import UsageError
from patchwords.layers.placing import Layerwise
from patchwords.layers.unit import Unit
from patchwords.models.model import Model

Group = dict[str, Any]  # params, names, weight_decay, scale (the factor of the learning rate), decays (kernels or not)


def groups(module: nn.Module, *, decay: float, layer_decay: float) -> list[Group]:
    """The trainable parameters of a model, or of an objective around one, by decay and by rate.

    The rate falls by the factor `layer_decay` with every layer below the head, which learns at the full one.
    """
    places = layers(module)
    top = max(places.values(), default=0)
    found: dict[tuple[float, bool], Group] = {}
    for name, parameter in module.named_parameters():
        if not parameter.requires_grad:
            continue
        scale, decays = layer_decay ** (top - places[name]), is_kernel(name, parameter)
        group = found.setdefault(
            (scale, decays),
            {"params": [], "names": [], "weight_decay": decay * decays, "scale": scale, "decays": decays},
        )
        group["params"].append(parameter)
        group["names"].append(name)
    if not found:
        raise UsageError("nothing is left to train: every parameter is frozen; set freeze to less")
    return [found[key] for key in sorted(found)]


def is_kernel(name: str, parameter: nn.Parameter) -> bool:
    """Whether decay is meant for it: the matrices and convolutions, which every module calls `weight`.

    The others have one axis (biases, norms, layer scales) or are looked up and added whole, under names of their own
    (positions, offsets, tokens, the probe of the pool).
    """
    return name.rpartition(".")[2] == "weight" and parameter.ndim > 1


def layers(module: nn.Module) -> dict[str, int]:
    """The layer of every parameter: 0 before the first unit, i + 1 in unit i, one more after the last.

    What stands between two units (the embedding of a hybrid, behind its ResNet) goes with the first of them; positions
    that the encoder adds go with the embedding; what an objective owns besides its model is after everything.
    """
    prefix, model = next(
        ((name, part) for name, part in module.named_modules() if isinstance(part, Model)), ("", module)
    )
    pieces = list(_pieces(prefix, model))
    units = sum(isinstance(piece, Unit) for _, piece in pieces)
    places, passed = {name: units + 1 for name, _ in module.named_parameters()}, 0
    for name, piece in pieces:
        inside = isinstance(piece, Unit)
        passed += inside
        place = 0 if isinstance(piece, Layerwise) else passed + (passed == units and not inside)
        whole = isinstance(piece, Unit | Layerwise)
        places |= {parameter: place for parameter, _ in piece.named_parameters(name, recurse=whole)}
    return places


def _pieces(name: str, module: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Units and the encoder's positions whole, everything else module by module, in the order of the forward."""
    yield name, module
    if not isinstance(module, Unit | Layerwise):
        for child_name, child in module.named_children():
            yield from _pieces(f"{name}.{child_name}".lstrip("."), child)


def freeze(model: nn.Module, what: str) -> None:
    """Keeps a part from learning: "backbone" is all but the head, "blocks 6" the embedding and the first six units.

    Gradients stop here, nothing else: whether dropout acts in a frozen part is the loop's to say.
    """
    if what == "":
        return
    if what == "backbone":
        head = model.get_submodule("head")
        if not any(True for _ in head.parameters()):
            raise UsageError("freeze 'backbone' leaves nothing to train: the model has no classes, and so no head")
        model.requires_grad_(False)
        head.requires_grad_(True)
        return
    match = re.fullmatch(r"blocks (\d+)", what, re.ASCII)
    if not match:
        raise UsageError(f"freeze {what!r} is not known: write backbone, blocks 6 (or another number), or nothing")
    _freeze_blocks(model, int(match[1]))


def _freeze_blocks(model: nn.Module, count: int) -> None:
    places = layers(model)
    depth = max(places.values()) - 1
    if count > depth:
        raise UsageError(f"freeze 'blocks {count}' is more than there are: the model has {depth}")
    for name, parameter in model.named_parameters():
        if places[name] <= count:
            parameter.requires_grad_(False)
