"""Eq. 1: z₀ = [x_class; x₁E; x₂E; …; x_N E] + E_pos."""

import torch
from torch import Tensor, nn

from patchwords.layers.initialise import lecun_normal_
from patchwords.layers.placing import Placing
from patchwords.layers.tokens import Grid, Special, Tokens
from patchwords.ops import patches as ops


class Embed(nn.Module):
    """Cuts a picture into patches, projects each to the width D, puts the special tokens in front, adds positions.

    The `stem` is the identity, or in a hybrid the ResNet whose feature map is cut instead of the picture.
    """

    def __init__(self, stem: nn.Module, patch: "PatchProjection", special: Special, position: Placing, dropout: float):
        super().__init__()
        self.stem = stem
        self.patch = patch
        self.special = special
        self.position = position
        self.drop = nn.Dropout(dropout)

    def project(self, images: Tensor) -> tuple[Tensor, Grid]:
        """Pictures to patch embeddings x_p E and their grid; masked objectives step in between this and `assemble`."""
        x = self.patch(self.stem(images))  # (batch, width, rows, cols)
        return x.flatten(2).mT, (x.shape[2], x.shape[3])  # (batch, patches, width)

    def assemble(self, patches: Tensor, grid: Grid) -> Tokens:
        """Patch embeddings to the sequence z₀."""
        x = self.special(patches)  # (batch, prefix + patches, width)
        tokens = self.position(Tokens(x, x.shape[1] - patches.shape[1], grid))
        return tokens.replace(self.drop(tokens.x))

    def glimpse(self, images: Tensor) -> Tokens:
        """The sequence of a picture of another size: its positions are resampled, and learn through that."""
        patches, grid = self.project(images)
        x = self.special(patches)
        tokens = self.position.elsewhere(Tokens(x, x.shape[1] - patches.shape[1], grid))
        return tokens.replace(self.drop(tokens.x))

    def forward(self, images: Tensor) -> Tokens:
        return self.assemble(*self.project(images))


class PatchProjection(nn.Module):
    """The E of eq. 1: a convolution whose kernel is its stride, so each patch is projected once and by itself."""

    def __init__(self, channels: int, width: int, patch: tuple[int, int]):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(width, channels, *patch))
        self.bias = nn.Parameter(torch.zeros(width))
        lecun_normal_(self.weight)

    def extra_repr(self) -> str:
        return "x".join(map(str, self.weight.shape))

    def forward(self, x: Tensor) -> Tensor:
        ops.check_pictures(x, self.weight.shape[1])
        patch = (self.weight.shape[2], self.weight.shape[3])
        ops.grid((x.shape[2], x.shape[3]), patch)
        return nn.functional.conv2d(x, self.weight, self.bias, stride=patch)
