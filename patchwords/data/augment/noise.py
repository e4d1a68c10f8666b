"""Normal noise with an address, made on the device: whole numbers are mixed as in `draws`, and looked up in a table.

No logarithm or cosine of a device takes part, so every device makes the same noise, bit for bit.
"""

from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from patchwords.ops import draws

QUANTILES = 2**16  # of the normal distribution, equally likely


def normal(words: Tensor, shape: tuple[int, ...]) -> Tensor:
    """(batch,) random words of 64 bits to normal numbers (batch, channels, height, width)."""
    channels, height, width = shape
    drawn = _spread(_spread(words, channels * height), width) >> 48 & (QUANTILES - 1)
    return _quantiles(words.device)[drawn].view(-1, *shape)


def _spread(words: Tensor, count: int) -> Tensor:
    """`count` new words for each: (…, count), the bits of `draws.uniform` in the signed numbers that torch has."""
    golden, first, second = (int(constant.astype(np.int64)) for constant in (draws.GOLDEN, draws.FIRST, draws.SECOND))
    x = words[..., None] + torch.arange(1, count + 1, device=words.device) * golden
    x ^= (x >> 30) & (2**34 - 1)  # the mask makes it the shift of an unsigned number
    x *= first
    x ^= (x >> 27) & (2**37 - 1)
    x *= second
    x ^= (x >> 31) & (2**33 - 1)
    return x


@lru_cache(maxsize=8)
def _quantiles(device: torch.device) -> Tensor:
    middle = (torch.arange(QUANTILES, dtype=torch.float64) + 0.5) / QUANTILES
    return torch.special.ndtri(middle).float().to(device)
