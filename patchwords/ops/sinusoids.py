"""Fixed position tables: the sines and cosines of a place, in one dimension or two."""

import torch
from torch import Tensor


def sincos_2d(grid: tuple[int, int], quarter: int, steps: int) -> Tensor:
    """Rows [sin xω, cos xω, sin yω, cos yω] with ωᵢ = 10000^(-i / steps), i < quarter: (1, patches, 4 · quarter)."""
    omega = 10000.0 ** -(torch.arange(quarter, dtype=torch.float64, device="cpu") / max(steps, 1))
    y, x = torch.meshgrid(
        torch.arange(grid[0], dtype=torch.float64, device="cpu"),
        torch.arange(grid[1], dtype=torch.float64, device="cpu"),
        indexing="ij",
    )
    x, y = x.flatten()[:, None] * omega, y.flatten()[:, None] * omega
    return torch.cat([x.sin(), x.cos(), y.sin(), y.cos()], 1)[None].float()


def sinusoidal_1d(tokens: int, width: int) -> Tensor:
    """Entry 2j of row i is sin(i / 10000^(2j / width)), entry 2j + 1 the cosine: (1, tokens, width)."""
    place = torch.arange(tokens, dtype=torch.float64, device="cpu")[:, None]
    angle = place / 10000.0 ** (torch.arange(0, width, 2, dtype=torch.float64, device="cpu") / width)
    return torch.stack([angle.sin(), angle.cos()], 2).flatten(1)[None, :, :width].float()
