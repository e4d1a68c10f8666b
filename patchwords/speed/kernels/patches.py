"""Pictures as rows of patches, rearranged and rounded in one pass: the plain twin of `patches_triton`."""

import torch
from torch import Tensor


def patches(images: Tensor, patch: tuple[int, int], dtype: torch.dtype) -> Tensor:
    """(batch, channels, height, width) as (batch · patches, channels · tall · wide), as a convolution reads them."""
    tall, wide = patch
    rows, cols = images.shape[2] // tall, images.shape[3] // wide
    x = images.unflatten(3, (cols, wide)).unflatten(2, (rows, tall)).permute(0, 2, 4, 1, 3, 5)
    flat = torch.empty(x.shape, dtype=dtype, device=x.device)
    return flat.copy_(x).flatten(3).flatten(0, 2)
