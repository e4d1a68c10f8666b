"""The parts of a model that can be fused, found by what they are."""

from typing import NamedTuple

from torch import nn

from patchwords.layers.attention import NoOffsets
from patchwords.layers.block import Block, Layer
from patchwords.layers.embed import Embed
from patchwords.layers.encoder import AtStem, GlobalEncoder
from patchwords.layers.mlp import MLP
from patchwords.layers.pool import Pooling
from patchwords.speed.kernels.gelu import Form


class Parts(NamedTuple):
    """A ViT's, but for its head; the encoder adds no positions of its own."""

    embed: Embed
    encoder: GlobalEncoder
    pool: Pooling

    @property
    def blocks(self) -> list[Block]:
        """Those at the front of the encoder that can be fused: all of them, or fewer."""
        found = []
        for block in self.encoder.blocks:
            if not isinstance(block, Block) or not fits(block):
                break
            found.append(block)
        return found

    @property
    def whole(self) -> bool:
        """Whether every block can be fused."""
        return len(self.blocks) == len(self.encoder.blocks)


def parts_of(module: nn.Module) -> Parts | None:
    """The parts of a module that is a ViT with attention between all tokens."""
    children = list(module.children())
    embed = next((child for child in children if isinstance(child, Embed)), None)
    encoder = next((child for child in children if isinstance(child, GlobalEncoder)), None)
    pool = next((child for child in children if isinstance(child, Pooling)), None)
    if embed is None or encoder is None or pool is None or not isinstance(encoder.position, AtStem):
        return None
    return Parts(embed, encoder, pool)


def fits(block: Layer) -> bool:
    """No layer scale, no dropout, attention by content alone: what the fused forward does not compute."""
    attention = block.attention
    return (
        isinstance(block.scale1, nn.Identity)
        and isinstance(attention.offsets, NoOffsets)
        and isinstance(attention.qkv, nn.Linear)
        and attention.weight_dropout == attention.drop.p == block.mlp.drop.p == 0.0
    )


def fits_eight(block: Layer) -> bool:
    """Whether products in eight bits take its matrices: for GPUs their sides are multiples of 16."""
    return all(side % 16 == 0 for side in block.mlp.fc1.weight.shape)


def form(mlp: MLP) -> Form:
    """Which GELU a layer has."""
    assert isinstance(mlp.activation, nn.GELU)
    return "tanh" if mlp.activation.approximate == "tanh" else "none"
