"""Gives the parts of a model that can be fused their fused forwards; the others stay as they are."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor, nn

from patchwords.layers.attention import Attention
from patchwords.layers.block import Block, Layer, StreamNormBlock
from patchwords.layers.encoder import Encoder
from patchwords.layers.tokens import Tokens
from patchwords.speed.fused.attend import (
    Attend,
    Library,
    Plain,
    Short,
    cudnn_backward,
    cudnn_forward,
    flash_backward,
    flash_forward,
)
from patchwords.speed.fused.block import FusedBlock, How, Open, Second
from patchwords.speed.fused.embed import fuse_embed
from patchwords.speed.fused.last import last
from patchwords.speed.fused.parts import Parts, fits, fits_eight, form, parts_of
from patchwords.speed.fused.products import Products, Same
from patchwords.speed.fused.window import fuse_windows
from patchwords.speed.kernels.table import Kernels
from patchwords.speed.recompute import Again

# Tokens of the longest sequence whose way back through attention finds room in the shared memory of a multiprocessor,
# by the first number of a GPU's capability or both; of all others, those at home.
MOST: dict[int | tuple[int, int], int] = {9: 256, 10: 256, (8, 0): 208, (8, 7): 208}
AT_HOME = 128
SECOND: dict[type[Layer], Second] = {Block: "branch", StreamNormBlock: "stream"}


class Fused(NamedTuple):
    """How many blocks were fused, of how many, and how many of them learn with narrower products."""

    blocks: int
    every: int
    narrow: int


def fuse(
    module: nn.Module,
    kernels: Kernels,
    dtype: torch.dtype,
    device: torch.device,
    narrow: Callable[[Kernels], Products] | None = None,
    again: Again | None = None,
) -> Fused:
    """For training; the products of blocks that learn can be `narrow`er than the stream.

    Never those of an encoder's last block, which the answer is made of, and those of a Swin: most of its rows are of
    narrow maps, where little is multiplied with every number that would be rounded.
    """
    blocks = [part for part in module.modules() if isinstance(part, Layer)]
    fitting = [block for block in blocks if fits(block)]
    narrowed = {block for block in fitting if fits_eight(block)} - _ends(module) if narrow else set()
    for block in fitting:
        attend = attends(block.attention, kernels, device)
        how = How(kernels, dtype, Same(kernels, dtype), block.norm1.eps, form(block.mlp), SECOND[type(block)], again)
        answers = _forward(block, attend, how)
        learns = answers
        if narrow and block in narrowed:
            learns = _forward(block, attend, replace(how, products=narrow(kernels)))
        vars(block)["forward"] = Either(block, learns, answers)
    for part in module.modules():
        if (parts := parts_of(part)) and parts.blocks:
            fuse_embed(parts.embed, kernels, dtype)
            if parts.whole and parts.pool.front is not None:
                vars(part)["read"] = _read(parts, last(parts.blocks[-1], parts.pool.front, kernels, dtype, again))
    windows, of = fuse_windows(module, kernels, dtype, again)
    return Fused(len(fitting) + windows, len(blocks) + of, len(narrowed))


@dataclass(frozen=True)
class Either:
    """A block's forward: a model that is judged answers in the precision of the stream."""

    block: Layer
    learns: FusedBlock
    answers: FusedBlock

    def __call__(self, x: Tensor) -> Tensor:
        return self._made()(x)

    def after(self, rows: Open) -> Open:
        return self._made().after(rows)

    def _made(self) -> FusedBlock:
        return self.learns if self.block.training else self.answers


def _forward(block: Layer, attend: Attend, how: How) -> FusedBlock:
    return FusedBlock((block.norm1, block.norm2), block.attention, block.mlp, block.drop, attend, how)


def _ends(module: nn.Module) -> set[nn.Module]:
    """What the last blocks of all encoders are made of."""
    return {part for each in module.modules() if isinstance(each, Encoder) for part in each.blocks[-1].modules()}


def _read(parts: Parts, ends: Callable[[Open], Tensor]) -> Callable[[Tokens], Tensor]:
    """Eq. 2 to 4 where only the first tokens of the last layer are looked at.

    The sum that ends a block is made by the norm of the next one, unless blocks run again in the backward pass or
    somebody wants to hear of them.
    """

    def read(tokens: Tokens) -> Tensor:
        rows, blocks = Open(tokens.x), parts.encoder.blocks[:-1]
        forwards = [forward for block in blocks if isinstance(forward := vars(block)["forward"], Either)]
        heard = any(block._forward_hooks or block._forward_pre_hooks for block in blocks)
        if len(forwards) == len(blocks) and not heard:
            for forward in forwards:
                rows = forward.after(rows)
        else:
            for block in blocks:
                rows = Open(block(rows.stream))
        return parts.pool(tokens.replace(parts.encoder.norm(ends(rows))))

    return read


def attends(attention: Attention, kernels: Kernels, device: torch.device) -> Attend:
    """Our own kernels for short sequences; for others cuDNN's, and the equations where there is no GPU.

    Older GPUs have flash's instead of cuDNN's, and so has who asks for the same bits, which cuDNN does not promise.
    """
    heads = attention.heads
    if device.type != "cuda":
        return Plain(heads)
    capability = torch.cuda.get_device_capability(device)
    recent = capability >= (8, 0) and torch.backends.cudnn.is_available()
    free = not torch.are_deterministic_algorithms_enabled()
    ways = (cudnn_forward, cudnn_backward) if recent and free else (flash_forward, flash_backward)
    most = MOST.get(capability, MOST.get(capability[0], AT_HOME))
    return Short(heads, kernels, Library(heads, *ways, kernels.pack), most)
