"""Swin for training: the fused block, with attention that reads windows where they lie in the map."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, TypeVar

import torch
from torch import Tensor, nn

from patchwords.layers.embed import PatchProjection
from patchwords.layers.merge import Merge
from patchwords.layers.window import WindowBlock, WindowOffsets
from patchwords.ops.windows import Grid, counts
from patchwords.speed.fused.attend import Back, Kept
from patchwords.speed.fused.block import FusedBlock, How
from patchwords.speed.fused.embed import projected
from patchwords.speed.fused.norms import fused_norm
from patchwords.speed.fused.parts import form
from patchwords.speed.fused.products import Same
from patchwords.speed.kernels.table import Kernels
from patchwords.speed.kernels.windowed import WindowGradients, taken
from patchwords.speed.recompute import Again

Part = TypeVar("Part", bound=nn.Module)


@dataclass(frozen=True)
class Within:
    """W-MSA and SW-MSA for a fused block; what it has learned is the bias of eq. 4.

    A map that the windows do not divide is padded where the layer pads it, before `projection`, which makes its bias
    of nothing: so the gradient of that bias is still the sum over all places.
    """

    window: Grid
    shift: Grid
    projection: nn.Linear
    forwards: Callable[..., Tensor]
    backwards: Callable[..., WindowGradients]
    lacking: ClassVar[bool] = False  # what is padded has them

    def forward(self, qkv: Tensor, *learned: Tensor) -> tuple[Tensor, Kept]:
        out = self.forwards(self._padded(qkv, self.projection.bias), *learned, self.window, self.shift)
        return out[:, : qkv.shape[1], : qkv.shape[2]], ()

    def backward(self, grad: Tensor, qkv: Tensor, out: Tensor, kept: Kept, *learned: Tensor) -> Back:
        rows, cols = qkv.shape[1], qkv.shape[2]
        qkv = self._padded(qkv, self.projection.bias)
        found = self.backwards(self._padded(grad, None), qkv, *learned, self.window, self.shift)
        return Back(found.qkv[:, :rows, :cols], found.sums, (found.bias,))

    def _padded(self, x: Tensor, with_what: Tensor | None) -> Tensor:
        batch, rows, cols, width = x.shape
        down, across = counts((rows, cols), self.window)
        tall, wide = down * self.window[0], across * self.window[1]
        if (tall, wide) == (rows, cols):
            return x
        padded = x.new_zeros(batch, tall, wide, width)
        if with_what is not None:
            padded += with_what.detach().to(x.dtype)
        padded[:, :rows, :cols] = x
        return padded


def fuse_windows(
    module: nn.Module, kernels: Kernels, dtype: torch.dtype, again: Again | None = None
) -> tuple[int, int]:
    """For training; tells how many blocks were fused, and of how many."""
    blocks = [part for part in module.modules() if isinstance(part, WindowBlock)]
    fitting = [block for block in blocks if fits(block)]
    for block in fitting:
        vars(block)["forward"] = fused_window(block, kernels, dtype, again)
    if fitting:
        _fuse_between(module, kernels, dtype)
    return len(fitting), len(blocks)


def _fuse_between(module: nn.Module, kernels: Kernels, dtype: torch.dtype) -> None:
    """What stands between the blocks: patches with their norm, and the norms of maps that are merged."""
    for part in module.modules():
        patches = children(part, PatchProjection)
        for patch in patches:
            vars(patch)["forward"] = projected(patch, kernels)
        for norm in children(part, nn.LayerNorm):
            if patches or isinstance(part, Merge):
                vars(norm)["forward"] = fused_norm(norm, kernels, dtype)


def fits(block: WindowBlock) -> bool:
    """No dropout, and heads and windows that the kernels take."""
    attention, tokens = block.attention, block.window[0] * block.window[1]
    return (
        isinstance(attention.offsets, WindowOffsets)
        and isinstance(attention.qkv, nn.Linear)
        and attention.weight_dropout == attention.drop.p == block.mlp.drop.p == 0.0
        and taken(tokens, attention.out.out_features // attention.heads)
    )


def fused_window(
    block: WindowBlock, kernels: Kernels, dtype: torch.dtype, again: Again | None
) -> Callable[[Tensor], Tensor]:
    """The forward of a block."""
    projection, offsets = block.attention.qkv, block.attention.offsets
    assert isinstance(projection, nn.Linear)
    attend = Within(block.window, block.shift, projection, kernels.windowed, kernels.windowed_backward)
    how = How(kernels, dtype, Same(kernels, dtype), block.norm1.eps, form(block.mlp), again=again)
    made = FusedBlock((block.norm1, block.norm2), block.attention, block.mlp, block.drop, attend, how)
    return lambda x: made(x, bias_of(offsets))


def bias_of(offsets: nn.Module) -> Tensor:
    """What is added to the logits of each head, (heads, tokens, tokens); the table learns through it."""
    assert isinstance(offsets, WindowOffsets)
    return offsets.table[offsets.index].permute(2, 0, 1).contiguous()


def children(part: nn.Module, kind: type[Part]) -> list[Part]:
    """The children of a module that are of a kind."""
    return [child for child in part.children() if isinstance(child, kind)]
