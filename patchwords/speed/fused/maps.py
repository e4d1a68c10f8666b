"""Swin for inference: within a stage one map that every branch is added to in place, as to the sequence in `stream`.

What a map lacks, the biases that were not added to it, is added by the norm that merges it, or by the last norm.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from patchwords.layers.embed import PatchProjection
from patchwords.layers.merge import Merge
from patchwords.layers.window import WindowBlock
from patchwords.ops import windows
from patchwords.speed.fused.embed import projected
from patchwords.speed.fused.parts import form
from patchwords.speed.fused.stream import Weights, layers
from patchwords.speed.fused.window import bias_of, children, fits
from patchwords.speed.kernels.table import Kernels


class Pyramid(NamedTuple):
    """A Swin's parts, but for its head: the module with patches and their norm, stages, and the norm after them."""

    embed: nn.Module
    stages: list[nn.Module]
    norm: nn.LayerNorm


def pyramid_of(model: nn.Module) -> Pyramid | None:
    """The parts of a model of which every block attends within windows, and can be fused."""
    embed = next((part for part in model.children() if children(part, PatchProjection)), None)
    norm = next((part for part in model.children() if isinstance(part, nn.LayerNorm)), None)
    stages = [part for part in model.modules() if _blocks(part)]
    if embed is None or norm is None or not stages:
        return None
    return Pyramid(embed, stages, norm) if all(fits(block) for part in stages for block in _blocks(part)) else None


def stream_maps(parts: Pyramid, kernels: Kernels, dtype: torch.dtype) -> None:
    """Replaces what a copy does between its pictures and its head."""
    vars(parts.embed)["forward"] = _embedded(parts.embed, kernels, dtype)
    lacks = None
    for stage in parts.stages:
        made = MapStage(children(stage, Merge), _blocks(stage), lacks, kernels, dtype)
        vars(stage)["forward"], lacks = made, made.lacks
        for blocks in _lists(stage):
            del blocks[:]  # the stage has their weights
    vars(parts.norm)["forward"] = _last(parts.norm, lacks)


class MapStage:
    """The merging and the blocks of a stage, with matrices in `dtype`; `lacks` is what the map before it lacks.

    It takes a map (batch, rows, cols, width) that nobody else needs.
    """

    def __init__(
        self,
        merges: Sequence[Merge],
        blocks: Sequence[WindowBlock],
        lacks: Tensor | None,
        kernels: Kernels,
        dtype: torch.dtype,
    ):
        self.kernels, self.dtype = kernels, dtype
        self.merges = [_merged(merge, lacks, kernels, dtype) for merge in merges]
        self.epsilon, self.form = blocks[0].norm1.eps, form(blocks[0].mlp)
        self.layers, self.lacks = layers(blocks, dtype, torch.zeros_like(blocks[0].norm1.weight))
        self.within = [(bias_of(block.attention.offsets), block.window, block.shift) for block in blocks]

    def __call__(self, x: Tensor) -> Tensor:
        for merge in self.merges:
            x = merge(x)
        grid, rows = x.shape, x.to(self.dtype).reshape(-1, x.shape[-1])
        for layer, within in zip(self.layers, self.within, strict=True):
            y = self.kernels.norm(rows, *layer.norm1, self.epsilon, layer.lacks1).y
            self.kernels.product_added(self._attended(y.view(grid), layer, *within), layer.out, rows)
            y = self.kernels.norm(rows, *layer.norm2, self.epsilon, layer.lacks2).y
            self.kernels.product_added(self.kernels.linear_gelu(y, *layer.fc1, self.form), layer.fc2, rows)
        return rows.view(grid)

    def _attended(self, y: Tensor, layer: Weights, bias: Tensor, window: windows.Grid, shift: windows.Grid) -> Tensor:
        """Rows of what each place takes from its window; a map that the windows do not cover is padded for that."""
        rows, cols, width = y.shape[1:]
        down, across = windows.counts((rows, cols), window)
        below, right = down * window[0] - rows, across * window[1] - cols
        if below or right:
            y = F.pad(y, (0, 0, 0, right, 0, below))
        qkv = self.kernels.product(y.flatten(0, 2), *layer.qkv).view(*y.shape[:3], -1)
        out = self.kernels.windowed(qkv, bias, window, shift)
        return out[:, :rows, :cols].reshape(-1, width)


def _embedded(embed: nn.Module, kernels: Kernels, dtype: torch.dtype) -> Callable[[Tensor], Tensor]:
    (patch,), (norm,) = children(embed, PatchProjection), children(embed, nn.LayerNorm)
    patch.to(dtype)
    project = projected(patch, kernels)

    def forward(images: Tensor) -> Tensor:
        x = project(images).permute(0, 2, 3, 1)
        return kernels.norm(x.reshape(-1, x.shape[-1]), norm.weight, norm.bias, norm.eps).y.view(x.shape)

    return forward


def _merged(merge: Merge, lacks: Tensor | None, kernels: Kernels, dtype: torch.dtype) -> Callable[[Tensor], Tensor]:
    assert lacks is not None
    norm, weight, lacked = merge.norm, merge.reduction.weight.to(dtype), lacks.repeat(4)

    def forward(x: Tensor) -> Tensor:
        below, right = x.shape[1] % 2, x.shape[2] % 2
        if below or right:  # what is padded lacks nothing
            x = F.pad(x + lacks, (0, 0, 0, right, 0, below)).to(dtype)
        four = torch.cat([x[:, row::2, col::2] for col in (0, 1) for row in (0, 1)], -1)
        rows = four.view(-1, four.shape[-1])
        y = kernels.norm(rows, norm.weight, norm.bias, norm.eps, None if below or right else lacked).y
        return kernels.product(y, weight, None).view(*four.shape[:-1], -1)

    return forward


def _last(norm: nn.LayerNorm, lacks: Tensor | None) -> Callable[[Tensor], Tensor]:
    assert lacks is not None

    def forward(x: Tensor) -> Tensor:
        return F.layer_norm(x.float() + lacks, norm.normalized_shape, norm.weight, norm.bias, norm.eps)

    return forward


def _lists(part: nn.Module) -> list[nn.ModuleList]:
    """Those of a module that hold blocks."""
    return [found for found in children(part, nn.ModuleList) if found and isinstance(found[0], WindowBlock)]


def _blocks(part: nn.Module) -> list[WindowBlock]:
    return [block for found in _lists(part) for block in found if isinstance(block, WindowBlock)]
