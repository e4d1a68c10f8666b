"""Swin, section 3.2: a map cut into windows, moved by a cyclic shift before it is cut, and joined again.

A map whose sides the window does not divide is padded with zeros at the right and the bottom.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

Grid = tuple[int, int]


def counts(grid: Grid, window: Grid) -> Grid:
    """How many windows cover a grid, down and across."""
    return -(-grid[0] // window[0]), -(-grid[1] // window[1])


def moved(shift: Grid, windows: Grid) -> Grid:
    """The shift where it moves anything: along a side that one window covers there is none."""
    return (shift[0] if windows[0] > 1 else 0), (shift[1] if windows[1] > 1 else 0)


def cut(x: Tensor, window: Grid, shift: Grid) -> Tensor:
    """(batch, rows, cols, width) to (batch, down, across, tokens of a window, width)."""
    rows, cols = x.shape[1], x.shape[2]
    down, across = counts((rows, cols), window)
    below, right = down * window[0] - rows, across * window[1] - cols
    if below or right:
        x = F.pad(x, (0, 0, 0, right, 0, below))
    up, left = moved(shift, (down, across))
    if up or left:
        x = x.roll((-up, -left), (1, 2))
    x = x.unflatten(2, (across, window[1])).unflatten(1, (down, window[0]))  # (batch, down, tall, across, wide, width)
    return x.transpose(2, 3).flatten(3, 4)


def join(x: Tensor, window: Grid, shift: Grid, grid: Grid) -> Tensor:
    """The inverse of `cut`, for a map of that grid: what was padded is cut off."""
    up, left = moved(shift, (x.shape[1], x.shape[2]))
    x = x.unflatten(3, window).transpose(2, 3).flatten(3, 4).flatten(1, 2)  # (batch, rows, cols, width), padded
    if up or left:
        x = x.roll((up, left), (1, 2))
    return x[:, : grid[0], : grid[1]]


def regions(windows: Grid, window: Grid, shift: Grid, device: torch.device) -> Tensor:
    """Which part of the map each token of each window comes from, (down, across, tokens of a window).

    Two tokens of a window with different numbers were no neighbours before the cyclic shift (Figure 4).
    """
    up, left = moved(shift, windows)
    down, across = (torch.arange(n * side, device=device) for n, side in zip(windows, window, strict=True))
    below = (down >= down.shape[0] - up).long().unflatten(0, (windows[0], window[0]))  # brought round from the top
    right = (across >= across.shape[0] - left).long().unflatten(0, (windows[1], window[1]))
    return (2 * below[:, None, :, None] + right[None, :, None, :]).flatten(2)
