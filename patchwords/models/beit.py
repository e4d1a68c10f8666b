"""BEiT (Bao et al., 2022) as it is fine-tuned: biases for the offsets between patches instead of positions."""

from patchwords.layers.pool import Mean
from patchwords.layers.position import RelativeBias
from patchwords.models.sizes import Size
from patchwords.models.vit import ViTConfig

DEEP = 24  # layers, as in L: from here on the layer scale starts smaller


def beit(size: Size, patch: tuple[int, int], image: tuple[int, int]) -> ViTConfig:
    """No position but the biases of every block, none of its own for keys, layer scale, and the patches' mean."""
    return ViTConfig(
        **size._asdict(),
        patch=patch,
        image=image,
        position=RelativeBias(),
        biases="qv",
        activation="gelu",
        layer_scale=1e-5 if size.depth >= DEEP else 0.1,
        pool=Mean(norm="after"),
    )
