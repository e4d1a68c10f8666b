"""Eq. 6 for one query: where one patch looks, in one layer, head by head."""

from typing import NamedTuple

import torch
from torch import Tensor

from patchwords.errors import UsageError
from patchwords.layers.encoder import check_layers
from patchwords.layers.tokens import Grid
from patchwords.models.model import Model


class PatchAttention(NamedTuple):
    """The weights of one patch; with those of the special tokens they sum to one."""

    patches: Tensor  # (batch, heads, rows, cols)
    special: Tensor  # (batch, heads, special tokens)


@torch.no_grad()
def patch_attention(model: Model, images: Tensor, layer: int, place: tuple[int, int]) -> PatchAttention:
    """Where the patch at `place` (row and column) looks in a layer, all counted from 1."""
    looks = model.gaze(images).looks
    check_layers([layer], len(looks))
    look = looks[layer - 1]
    _, prefix, grid = look.tokens
    check_place(place, grid)
    query = prefix + (place[0] - 1) * grid[1] + place[1] - 1
    weights = look.weights(rows=slice(query, query + 1))[:, :, 0]  # (batch, heads, tokens)
    return PatchAttention(weights[..., prefix:].unflatten(2, grid), weights[..., :prefix])


def check_place(place: tuple[int, int], grid: Grid) -> None:
    if not (1 <= place[0] <= grid[0] and 1 <= place[1] <= grid[1]):
        raise UsageError(
            f"there is no patch in row {place[0]}, column {place[1]}: "
            f"rows are numbered 1 to {grid[0]}, columns 1 to {grid[1]}"
        )
