"""Section 3.2: weights for another resolution, patch, head or number of channels. Renaming never resizes; this does."""

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from patchwords.errors import ModelError, UsageError
from patchwords.layers.position import RelativeBias
from patchwords.models.build import blank
from patchwords.models.names import Config
from patchwords.models.swin import SwinConfig
from patchwords.models.vit import ViTConfig
from patchwords.ops.biases import resample_biases
from patchwords.ops.resampling import Convention, resample_line, resample_table, resample_window, resize_kernel
from patchwords.weights.rules import State, compare, parse

FIRST_KERNELS = ("embed.patch.weight", "embed.stem.root.conv.weight", "root.conv.weight", "input.weight")
LINES = (  # tables that run along one axis
    "embed.position.rows",
    "embed.position.cols",
    "encoder.position.tables.{i}.rows",
    "encoder.position.tables.{i}.cols",
    "encoder.blocks.{i}.attention.offsets.table",
    "encoder.blocks.{i}.along_rows.attention.offsets.table",
    "encoder.blocks.{i}.along_cols.attention.offsets.table",
)
WINDOWS = "stages.{s}.blocks.{b}.attention.offsets.table"
TABLES = ("embed.position.table", "encoder.position.tables.{i}.table")
BIASES = ("encoder.blocks.{i}.attention.offsets.table", "encoder.position.bias.table")
POSITIONS = (*TABLES, *LINES, *BIASES, WINDOWS)


def adapt(state: Mapping[str, Tensor], old: Config, new: Config, positions: Convention = "paper") -> State:
    """The weights of `old` as weights of `new`, which differs in image, patch, window, channels or classes alone."""
    numbers = {"image": new.image, "channels": new.channels, "classes": new.classes, "head": new.head}
    if isinstance(old, ViTConfig) and isinstance(new, ViTConfig):
        numbers["patch"] = new.patch
    if isinstance(old, SwinConfig) and isinstance(new, SwinConfig):
        numbers |= {"patch": new.patch, "window": new.window}
    if replace(old, **numbers) != new:  # type: ignore[arg-type]
        raise ModelError(
            "only image, patch, window, channels, classes and head can be adapted; the rest is another architecture"
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
    if isinstance(old, ViTConfig) and isinstance(new, ViTConfig):
        if _is_among(TABLES, name):
            return resample_table(tensor, old.grid, new.grid, positions)
        if isinstance(old.position, RelativeBias) and _is_among(BIASES, name):
            return resample_biases(tensor, old.grid, new.grid)
    if isinstance(old, SwinConfig) and isinstance(new, SwinConfig) and (place := parse(WINDOWS, name)):
        return resample_window(tensor, old.windows[place["s"]], new.windows[place["s"]])
    if tensor.shape == target.shape or tensor.dim() != target.dim():
        return tensor  # `compare` refuses what does not fit
    if name in FIRST_KERNELS:
        return resize_kernel(mix_channels(tensor, target.shape[1]), (target.shape[2], target.shape[3]))
    if _is_among(LINES, name):
        return resample_line(tensor, target.shape[0])
    return tensor


def is_position(name: str) -> bool:
    """Whether a parameter says where a patch is, in any model."""
    return _is_among(POSITIONS, name)


def _is_among(templates: tuple[str, ...], name: str) -> bool:
    return any(parse(template, name) is not None for template in templates)


def mix_channels(kernel: Tensor, channels: int) -> Tensor:
    """A first kernel for grey pictures (the colours summed) or for other bands (the colours repeated, same total)."""
    old = kernel.shape[1]
    if old == channels:
        return kernel
    if channels == 1:
        return kernel.sum(1, keepdim=True)
    repeats = -(-channels // old)
    return kernel.repeat(1, repeats, 1, 1)[:, :channels] * (old / channels)
