"""What can happen to a branch before it is added to the stream: scaled, or left out."""

import torch
from torch import Tensor, nn


class LayerScale(nn.Module):
    """A learned factor for each channel (CaiT, DeiT-III, BEiT)."""

    def __init__(self, width: int, initial: float):
        super().__init__()
        self.weight = nn.Parameter(torch.full((width,), initial))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.weight


class StochasticDepth(nn.Module):
    """While training, leaves the branch out for a share `rate` of the samples and scales up the others."""

    def __init__(self, rate: float):
        super().__init__()
        self.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.rate == 0.0:
            return x
        kept = torch.rand(x.shape[0], *[1] * (x.dim() - 1), device=x.device) >= self.rate
        return x * (kept / (1 - self.rate)).to(x.dtype)
