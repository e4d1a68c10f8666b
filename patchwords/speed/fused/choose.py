"""Gives the parts of a model that can be fused their fused forwards; the others stay as they are."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from patchwords.layers.attention import Attention
from patchwords.layers.block import Block, Layer, StreamNormBlock
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
from patchwords.speed.fused.block import How, Second, fused
from patchwords.speed.fused.embed import fuse_embed
from patchwords.speed.fused.last import last
from patchwords.speed.fused.parts import Parts, fits, form, parts_of
from patchwords.speed.fused.window import fuse_windows
from patchwords.speed.kernels.table import Kernels

SECOND: dict[type[Layer], Second] = {Block: "branch", StreamNormBlock: "stream"}


def fuse(module: nn.Module, kernels: Kernels, dtype: torch.dtype, device: torch.device) -> tuple[int, int]:
    """For training; tells how many blocks were fused, and of how many."""
    blocks = [part for part in module.modules() if isinstance(part, Layer)]
    fitting = [block for block in blocks if fits(block)]
    for block in fitting:
        attend = attends(block.attention, kernels, device)
        how = How(kernels, dtype, block.norm1.eps, form(block.mlp), SECOND[type(block)])
        norms = block.norm1, block.norm2
        vars(block)["forward"] = fused(norms, block.attention, block.mlp, block.drop, attend, how)
    for part in module.modules():
        if (parts := parts_of(part)) and parts.blocks:
            fuse_embed(parts.embed, kernels, dtype)
            if parts.whole and parts.pool.front is not None:
                vars(part)["read"] = _read(parts, parts.pool.front, kernels, dtype)
    windows, of = fuse_windows(module, kernels, dtype)
    return len(fitting) + windows, len(blocks) + of


def _read(parts: Parts, front: int, kernels: Kernels, dtype: torch.dtype) -> Callable[[Tokens], Tensor]:
    """Eq. 2 to 4 where only the first tokens of the last layer are looked at."""
    ends = last(parts.blocks[-1], front, kernels, dtype)

    def read(tokens: Tokens) -> Tensor:
        for layer in range(len(parts.encoder.blocks) - 1):
            tokens = parts.encoder.step(tokens, layer)
        return parts.pool(tokens.replace(parts.encoder.norm(ends(tokens.x))))

    return read


def attends(attention: Attention, kernels: Kernels, device: torch.device) -> Attend:
    """Our own kernels for short sequences; for others cuDNN's, flash's on older GPUs, and the equations elsewhere."""
    heads = attention.heads
    if device.type != "cuda":
        return Plain(heads)
    recent = torch.cuda.get_device_capability(device) >= (8, 0) and torch.backends.cudnn.is_available()
    ways = (cudnn_forward, cudnn_backward) if recent else (flash_forward, flash_backward)
    return Short(heads, kernels, Library(heads, *ways, kernels.pack))
