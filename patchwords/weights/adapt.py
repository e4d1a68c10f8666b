"""Section 3.2: weights for another resolution, patch, head or number of channels. Renaming never resizes; this does."""

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from patchwords.errors import ModelError, UsageError
from patchwords.models.build import blank
from patchwords.models.names import Config
from patchwords.models.vit import ViTConfig
from patchwords.ops.resampling import Convention, resample_line, resample_table, resize_kernel
from patchwords.weights.rules import State, compare, parse

FIRST_KERNELS = ("embed.patch.weight", "embed.stem.root.conv.weight", "root.conv.weight")
LINES = (  # tables that run along one axis
    "embed.position.rows",
    "embed.position.cols",
    "encoder.position.tables.{i}.rows",
    "encoder.position.tables.{i}.cols",
    "encoder.blocks.{i}.attention.offsets.table",
    "encoder.blocks.{i}.along_rows.attention.offsets.table",
    "encoder.blocks.{i}.along_cols.attention.offsets.table",
)
TABLES = ("embed.position.table", "encoder.position.tables.{i}.table")


def adapt(state: Mapping[str, Tensor], old: Config, new: Config, positions: Convention = "paper") -> State:
    """The weights of `old` as weights of `new`, which differs in image, patch, channels or classes alone."""
    numbers = {"image": new.image, "channels": new.channels, "classes": new.classes, "head": new.head}
    if isinstance(old, ViTConfig) and isinstance(new, ViTConfig):
        numbers["patch"] = new.patch
    if replace(old, **numbers) != new:  # type: ignore[arg-type]
        raise ModelError(
            "only image, patch, channels, classes and head can be adapted; the rest is another architecture"
        )
    wanted = shapes(new)
    adapted = {name: tensor for name, tensor in state.items() if name in wanted or not name.startswith("head.")}
    for name, target in wanted.items():
        if name.startswith("head.") and (name not in state or state[name].shape != target.shape):
            adapted[name] = fresh(name, new, target)
        elif name in state:
            adapted[name] = resized(name, state[name], target, old, new, positions)
    compare(adapted, wanted)
    return adapted


def shapes(config: Config) -> dict[str, Tensor]:
    """The names and shapes of a model's parameters."""
    try:
        return dict(blank(config).state_dict())
    except UsageError as error:  # here nobody asked for it: a file does
        raise ModelError(str(error)) from error


def fresh(name: str, new: Config, target: Tensor) -> Tensor:
    """A new head's parameter as it starts: zeros, its bias as configured; a hidden layer is not made up."""
    if name.startswith("head.pre_logits"):
        raise ModelError(
            f"{name} is not among the weights, and a hidden layer cannot start at zero: choose a linear head"
        )
    return torch.full(target.shape, new.head.bias if name.endswith("bias") else 0.0)


def resized(name: str, tensor: Tensor, target: Tensor, old: Config, new: Config, positions: Convention) -> Tensor:
    """One tensor in its new shape; a table of positions may need it where the number of patches stays the same."""
    if (
        isinstance(old, ViTConfig)
        and isinstance(new, ViTConfig)
        and any(parse(table, name) is not None for table in TABLES)
    ):
        return resample_table(tensor, old.grid, new.grid, positions)
    if tensor.shape == target.shape or tensor.dim() != target.dim():
        return tensor  # `compare` refuses what does not fit
    if name in FIRST_KERNELS:
        return resize_kernel(mix_channels(tensor, target.shape[1]), (target.shape[2], target.shape[3]))
    if any(parse(line, name) is not None for line in LINES):
        return resample_line(tensor, target.shape[0])
    return tensor


def mix_channels(kernel: Tensor, channels: int) -> Tensor:
    """A first kernel for grey pictures (the colours summed) or for other bands (the colours repeated, same total)."""
    old = kernel.shape[1]
    if old == channels:
        return kernel
    if channels == 1:
        return kernel.sum(1, keepdim=True)
    repeats = -(-channels // old)
    return kernel.repeat(1, repeats, 1, 1)[:, :channels] * (old / channels)
