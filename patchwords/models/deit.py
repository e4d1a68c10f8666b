"""DeiT (Touvron et al., 2021) and DeiT-III (2022): the plain Vision Transformer with a token more, or a scale more."""

from dataclasses import replace

from patchwords.layers.head import Distilled
from patchwords.layers.pool import BothTokens
from patchwords.layers.position import Learned1D
from patchwords.models.sizes import Size
from patchwords.models.vit import ViTConfig


def deit(size: Size, patch: tuple[int, int], image: tuple[int, int]) -> ViTConfig:
    """The ViT of the same size, but with the exact GELU."""
    return ViTConfig(**size._asdict(), patch=patch, image=image, activation="gelu")


def distilled(config: ViTConfig) -> ViTConfig:
    """With a second token beside the class token, and a second classifier that learns from a teacher by it."""
    return replace(config, special=("class", "distillation"), pool=BothTokens(), head=Distilled())


def deit3(size: Size, patch: tuple[int, int], image: tuple[int, int]) -> ViTConfig:
    """Layer scale, and no position for the class token."""
    return replace(deit(size, patch, image), layer_scale=1e-4, position=Learned1D(over="patches"))
