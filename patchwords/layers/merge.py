"""Swin, section 3.1, "patch merging": each two by two places of a map become one, of twice the width."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from patchwords.layers.initialise import dense


class Merge(nn.Module):
    """(batch, rows, cols, width) to (batch, rows / 2, cols / 2, 2 · width); an odd side is padded with zeros."""

    def __init__(self, width: int, epsilon: float):
        super().__init__()
        self.norm = nn.LayerNorm(4 * width, eps=epsilon)
        self.reduction = dense(4 * width, 2 * width, bias="none")

    def forward(self, x: Tensor) -> Tensor:
        below, right = x.shape[1] % 2, x.shape[2] % 2
        if below or right:
            x = F.pad(x, (0, 0, 0, right, 0, below))
        four = [x[:, row::2, col::2] for col in (0, 1) for row in (0, 1)]  # column by column, as it was published
        return self.reduction(self.norm(torch.cat(four, -1)))
