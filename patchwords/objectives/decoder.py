"""MAE's decoder (He et al., 2022, section 3): a small Transformer that sees all places and says their pixels."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from patchwords.errors import UsageError
from patchwords.layers.attention import Attention, Biases, NoOffsets
from patchwords.layers.block import Block
from patchwords.layers.initialise import dense
from patchwords.layers.mlp import MLP, Activation
from patchwords.layers.position import Fixed1D
from patchwords.layers.tokens import Grid, Tokens
from patchwords.ops import places
from patchwords.settings import at_least


@dataclass(frozen=True, kw_only=True, slots=True)
class DecoderSize:
    """Width, layers, heads, and the width within an MLP."""

    width: int
    depth: int
    heads: int
    mlp: int

    def __post_init__(self) -> None:
        at_least(1, width=self.width, depth=self.depth, heads=self.heads, mlp=self.mlp)
        if self.width % self.heads:
            raise UsageError(
                f"the decoder's width {self.width} is not a multiple of its heads {self.heads}: change one of them"
            )
        if self.width % Fixed1D.divides:
            raise UsageError(
                f"the decoder's width {self.width} is not a multiple of {Fixed1D.divides}, which its positions need: "
                "choose another"
            )


class Decoder(nn.Module):
    """Encoded special tokens and visible patches to a prediction for every patch, in the picture's order."""

    def __init__(
        self,
        size: DecoderSize,
        *,
        inputs: int,
        outputs: int,
        grid: Grid,
        special: tuple[str, ...],
        biases: Biases,
        activation: Activation,
        epsilon: float,
    ):
        super().__init__()
        self.grid, self.special = grid, len(special)
        self.embed = dense(inputs, size.width)
        self.mask_token = nn.Parameter(torch.empty(1, 1, size.width))
        nn.init.normal_(self.mask_token, std=0.02)
        self.position = Fixed1D().build(size.width, grid, special)
        self.blocks = nn.ModuleList(
            Block(
                Attention(size.width, size.heads, biases, NoOffsets(), 0.0, 0.0),
                MLP(size.width, size.mlp, activation, 0.0),
                epsilon,
                None,
                0.0,
            )
            for _ in range(size.depth)
        )
        self.norm = nn.LayerNorm(size.width, eps=epsilon)
        self.pixels = dense(size.width, outputs)

    def forward(self, tokens: Tokens, restore: Tensor) -> Tensor:
        """`restore` (batch, patches) is where each patch stands among the visible ones and then the hidden ones."""
        x = tokens.replace(self.embed(tokens.x))
        hidden = self.mask_token.to(x.x.dtype).expand(restore.shape[0], restore.shape[1] - x.patches.shape[1], -1)
        patches = places.take(torch.cat([x.patches, hidden], 1), restore)
        z = self.position(Tokens(torch.cat([x.special, patches], 1), self.special, self.grid)).x
        for block in self.blocks:
            z = block(z)
        return self.pixels(self.norm(z))[:, self.special :]  # (batch, patches, pixels)
