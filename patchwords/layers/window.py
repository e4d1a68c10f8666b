"""Swin Transformer (Liu et al., 2021), section 3.2: attention within windows, which every second block shifts."""

import torch
from torch import Tensor, nn

from patchwords.layers.attention import Attention
from patchwords.layers.mlp import MLP
from patchwords.layers.residual import StochasticDepth
from patchwords.layers.tokens import Grid
from patchwords.layers.unit import Unit
from patchwords.ops import windows
from patchwords.ops.offsets import entries, offsets

APART = -100.0  # what the published models have learned with; softmax leaves 4e-44 of it


class WindowOffsets(nn.Module):
    """Eq. 4: the bias B, one value for each head and offset within a window.

    In shifted windows it also keeps apart what only the cyclic shift has brought together (Figure 4).
    """

    index: Tensor

    def __init__(self, window: Grid, shift: Grid, heads: int):
        super().__init__()
        self.window, self.shift = window, shift
        self.table = nn.Parameter(torch.empty(entries(window), heads))
        nn.init.trunc_normal_(self.table, std=0.02)
        self.register_buffer("index", offsets(window).int(), persistent=False)

    def forward(self, q: Tensor, heads: slice = slice(None), rows: slice = slice(None)) -> Tensor:
        """What is added to the logits of queries (batch, down, across, heads, tokens, width / heads)."""
        bias = self.table[self.index[rows]].permute(2, 0, 1)[heads].to(q.dtype)  # (heads, rows, tokens)
        count = (q.shape[1], q.shape[2])
        if not any(windows.moved(self.shift, count)):
            return bias[None]
        region = windows.regions(count, self.window, self.shift, q.device)
        apart = region[:, :, rows, None] != region[:, :, None, :]  # (down, across, rows, tokens)
        bias = bias + APART * apart[:, :, None].to(q.dtype)
        return bias.expand(q.shape[0], *bias.shape)


class WindowBlock(Unit):
    """Eq. 3: attention within windows, then an MLP; on a map (batch, rows, cols, width)."""

    def __init__(self, attention: Attention, mlp: MLP, window: Grid, shift: Grid, epsilon: float, skip: float):
        super().__init__()
        width = attention.out.out_features
        self.window, self.shift = window, shift
        self.norm1 = nn.LayerNorm(width, eps=epsilon)
        self.attention = attention
        self.norm2 = nn.LayerNorm(width, eps=epsilon)
        self.mlp = mlp
        self.drop = StochasticDepth(skip)

    def within(self, x: Tensor) -> Tensor:
        """W-MSA, or with a shift SW-MSA."""
        grid = (x.shape[1], x.shape[2])
        x = self.attention(windows.cut(x, self.window, self.shift))  # (batch, down, across, tokens, width)
        return windows.join(x, self.window, self.shift, grid)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.drop(self.within(self.norm1(x)))
        return x + self.drop(self.mlp(self.norm2(x)))
