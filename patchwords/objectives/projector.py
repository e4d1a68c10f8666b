"""DINO's head (Caron et al., 2021, section 3.1): an MLP to a unit vector, and its cosines with learned directions."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

STD = 0.02  # of the initial kernels


class Projector(nn.Module):
    """Three layers with GELUs and without batch norm, a bottleneck of length one, and `outputs` directions."""

    def __init__(self, width: int, hidden: int, bottleneck: int, outputs: int):
        super().__init__()
        self.fc1 = nn.Linear(width, hidden)
        self.fc2 = nn.Linear(hidden, hidden)
        self.fc3 = nn.Linear(hidden, bottleneck)
        self.directions = Directions(bottleneck, outputs)
        for layer in (self.fc1, self.fc2, self.fc3):
            nn.init.trunc_normal_(layer.weight, std=STD)
            nn.init.zeros_(layer.bias)

    def forward(self, y: Tensor, learns: Tensor) -> Tensor:
        """(…, width) to (…, outputs); `learns` is 0 while the directions are held, and 1 from then on."""
        x = self.fc3(F.gelu(self.fc2(F.gelu(self.fc1(y)))))
        return self.directions(F.normalize(x, dim=-1), learns)


class Directions(nn.Module):
    """Weight normalisation with all lengths at one: what is learned of a weight is where it points."""

    def __init__(self, width: int, outputs: int):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, width))
        nn.init.trunc_normal_(self.weight, std=STD)

    def forward(self, x: Tensor, learns: Tensor) -> Tensor:
        still = self.weight.detach()
        weight = still + learns * (self.weight - still)  # its gradient is zero while it is held, not missing
        return F.linear(x, F.normalize(weight, dim=-1))
