"""The encoder of a masked autoencoder (He et al., 2022) as it is fine-tuned: fixed positions, the patches' mean."""

from dataclasses import replace

from patchwords.layers.pool import Mean
from patchwords.layers.position import Fixed1D
from patchwords.models.deit import deit
from patchwords.models.sizes import Size
from patchwords.models.vit import ViTConfig


def mae(size: Size, patch: tuple[int, int], image: tuple[int, int]) -> ViTConfig:
    """DeiT's ViT; its class token stays in the sequence, and the norm stands after the mean."""
    return replace(deit(size, patch, image), position=Fixed1D(), pool=Mean(norm="after"))
