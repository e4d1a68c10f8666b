"""What BEiT's bias tables tell: how many heads there are, and for which picture they are."""

import math
from collections.abc import Mapping, Sequence
from typing import Literal

from torch import Tensor

from patchwords.errors import ModelError
from patchwords.layers.position import RelativeBias
from patchwords.models.names import Config
from patchwords.models.vit import ViTConfig
from patchwords.ops.offsets import entries, sequence_entries

Pair = tuple[int, int]
SHARED = "encoder.position.bias.table"
TABLES: dict[str, Literal["every", "shared"]] = {
    "encoder.blocks.0.attention.offsets.table": "every",
    SHARED: "shared",
}


def table(state: Mapping[str, Tensor]) -> str:
    """The name of the first table, or nothing where there is none."""
    return next((name for name in TABLES if name in state and state[name].dim() == 2), "")


def heads(state: Mapping[str, Tensor]) -> int | None:
    """How many heads a table has a column for."""
    return state[name].shape[1] if (name := table(state)) else None


def spread(state: Mapping[str, Tensor], config: Config) -> dict[str, Tensor]:
    """Weights for a model that may have the one table of all blocks in each of them, as BEiT is fine-tuned."""
    if not isinstance(config, ViTConfig) or config.position != RelativeBias(at="every") or SHARED not in state:
        return dict(state)
    tables = {f"encoder.blocks.{i}.attention.offsets.table": state[SHARED].clone() for i in range(config.depth)}
    return {name: tensor for name, tensor in state.items() if name != SHARED} | tables


def found(rows: int, special: int, unit: Pair, pictures: Sequence[Pair | None]) -> Pair:
    """The first of these pictures that has so many offsets; None is the square one that has."""
    offsets = rows - (sequence_entries((1, 1), special) - entries((1, 1)))
    side = (math.isqrt(max(offsets, 1)) + 1) // 2
    for size in pictures:
        tall, wide = size or (side * unit[0], side * unit[1])
        grid = (tall // unit[0], wide // unit[1])
        if min(grid) > 0 and entries(grid) == offsets:
            return tall, wide
    sizes = " or ".join("equal sides" if size is None else f"{size[0]}x{size[1]}" for size in pictures)
    raise ModelError(
        f"a bias table of {rows} rows with {special} special tokens is for no picture of {sizes}: "
        f"say its size in pixels with trained_at=(height, width), or --image"
    )
