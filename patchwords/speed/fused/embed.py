"""Eq. 1 as one matrix product and one pass over its result: patches do not overlap, so no convolution is needed."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from patchwords.layers.embed import Embed, PatchProjection
from patchwords.layers.placing import Rows
from patchwords.layers.tokens import Grid, Tokens
from patchwords.ops import patches as ops
from patchwords.speed.kernels.table import Kernels


def fuse_embed(embed: Embed, kernels: Kernels, dtype: torch.dtype) -> None:
    """Replaces the projection, and where positions are rows of a table also what puts the sequence together."""
    vars(embed.patch)["forward"] = projected(embed.patch, kernels)
    special, position = embed.special, embed.position
    if isinstance(position, Rows) and position.special == sum(special.counts.values()) and embed.drop.p == 0.0:
        vars(embed)["assemble"] = assembled(embed, position, kernels, dtype)


def projected(patch: PatchProjection, kernels: Kernels) -> Callable[[Tensor], Tensor]:
    """(batch, channels, height, width) to (batch, width, rows, cols), in memory with the width last."""

    def forward(images: Tensor) -> Tensor:
        width, channels, tall, wide = patch.weight.shape
        ops.check_pictures(images, channels)
        rows, cols = ops.grid((images.shape[2], images.shape[3]), (tall, wide))
        dtype = patch.weight.dtype
        if torch.is_autocast_enabled(images.device.type):
            dtype = torch.get_autocast_dtype(images.device.type)
        x = F.linear(_cut(images, (tall, wide), kernels, dtype), patch.weight.flatten(1), patch.bias)
        return x.view(-1, rows, cols, width).permute(0, 3, 1, 2)

    return forward


def assembled(embed: Embed, position: Rows, kernels: Kernels, dtype: torch.dtype) -> Callable[[Tensor, Grid], Tokens]:
    """Patch embeddings to the sequence, special tokens in front and positions added."""

    def assemble(patches: Tensor, grid: Grid) -> Tokens:
        if grid != position.grid:
            return type(embed).assemble(embed, patches, grid)  # which says what is wrong
        prefix, table = position.special, position.table[0]
        special = [embed.special.get_parameter(f"{name}_token")[0] for name in embed.special.counts]
        front = torch.cat(special) + table[:prefix] if prefix else table[:0]
        return Tokens(_made(patches, front, table[prefix:], kernels, dtype), prefix, grid)

    return assemble


class _Sequence(torch.autograd.Function):
    """The patches of every picture behind what stands in front of it."""

    @staticmethod
    def forward(ctx: Any, patches: Tensor, front: Tensor, rows: Tensor, kernels: Kernels, dtype: torch.dtype) -> Tensor:
        ctx.prefix, ctx.dtype = front.shape[0], patches.dtype
        return kernels.sequence(patches, front, rows, dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        sums = grad.sum(0, dtype=torch.promote_types(grad.dtype, torch.float32))
        return grad[:, ctx.prefix :].to(ctx.dtype), sums[: ctx.prefix], sums[ctx.prefix :], None, None


_made: Callable[..., Tensor] = _Sequence.apply


class _Cut(torch.autograd.Function):
    """Pictures to rows of patches, and the gradient of rows back to where they lay."""

    @staticmethod
    def forward(ctx: Any, images: Tensor, patch: tuple[int, int], kernels: Kernels, dtype: torch.dtype) -> Tensor:
        ctx.shape, ctx.patch, ctx.dtype = images.shape, patch, images.dtype
        return kernels.patches(images, patch, dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (batch, channels, height, width), (tall, wide) = ctx.shape, ctx.patch
        grad = grad.view(batch, height // tall, width // wide, channels, tall, wide).permute(0, 3, 1, 4, 2, 5)
        return grad.reshape(ctx.shape).to(ctx.dtype), None, None, None


_cut: Callable[..., Tensor] = _Cut.apply
