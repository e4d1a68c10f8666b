"""Swin's block against a plain one: each window by itself, in a loop, with no cyclic shift and no mask."""

import pytest
import torch
from torch import Tensor, nn

from patchwords.layers.attention import Attention
from patchwords.layers.mlp import MLP
from patchwords.layers.window import WindowBlock, WindowOffsets

Grid = tuple[int, int]
WIDTH, HEADS = 8, 2

CASES: list[tuple[Grid, Grid, Grid]] = [  # grid, window, shift
    ((4, 6), (2, 3), (0, 0)),
    ((8, 8), (4, 4), (2, 2)),
    ((9, 6), (3, 3), (1, 1)),
    ((7, 5), (3, 3), (1, 1)),  # the window does not divide it
    ((3, 8), (3, 4), (1, 2)),  # one window high
    ((2, 3), (5, 5), (2, 2)),  # smaller than the window
]
cases = pytest.mark.parametrize(("grid", "window", "shift"), CASES)


def block(window: Grid, shift: Grid, skip: float = 0.0) -> WindowBlock:
    """In float64, with parameters that all matter."""
    attention = Attention(WIDTH, HEADS, "qkv", WindowOffsets(window, shift, HEADS), 0.0, 0.0)
    made = WindowBlock(attention, MLP(WIDTH, 12, "gelu", 0.0), window, shift, 1e-3, skip).double().eval()
    for parameter in made.parameters():
        nn.init.normal_(parameter)
    return made


def segments(length: int, window: int, shift: int) -> list[range]:
    """One side of the padded map, cut where the shifted windows begin."""
    padded = -(-length // window) * window
    shift = shift if padded > window else 0
    begins = sorted({0, *range(shift, padded, window)})
    return [range(begin, end) for begin, end in zip(begins, [*begins[1:], padded], strict=True)]


def one_window(x: Tensor, rows: range, cols: range, attention: Attention, window: Grid) -> Tensor:
    """Attention of the tokens of one window (batch, tokens, width), pair by pair."""
    table, places = attention.offsets.table, [(row, col) for row in rows for col in cols]
    q, k, v = attention.qkv(x).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
    logits = q @ k.mT / (WIDTH // HEADS) ** 0.5
    bias = torch.zeros(HEADS, len(places), len(places), dtype=x.dtype)
    for i, (row, col) in enumerate(places):
        for j, (other_row, other_col) in enumerate(places):
            down, right = row - other_row + window[0] - 1, col - other_col + window[1] - 1
            bias[:, i, j] = table[down * (2 * window[1] - 1) + right]
    return attention.out(((logits + bias).softmax(-1) @ v).transpose(1, 2).flatten(2))


def plain(made: WindowBlock, x: Tensor) -> Tensor:
    """Eq. 3 with a loop over the windows as they lie on the map."""
    (height, width), (tall, wide) = x.shape[1:3], made.window
    normed = made.norm1(x)
    padded = x.new_zeros(x.shape[0], -(-height // tall) * tall, -(-width // wide) * wide, x.shape[3])
    padded[:, :height, :width] = normed
    out = torch.zeros_like(padded)
    for rows in segments(height, tall, made.shift[0]):
        for cols in segments(width, wide, made.shift[1]):
            part = padded[:, rows.start : rows.stop, cols.start : cols.stop]
            seen = one_window(part.flatten(1, 2), rows, cols, made.attention, made.window)
            out[:, rows.start : rows.stop, cols.start : cols.stop] = seen.unflatten(1, (len(rows), len(cols)))
    x = x + out[:, :height, :width]
    return x + made.mlp(made.norm2(x))


@cases
def test_shifted_windows_are_windows_by_themselves(grid: Grid, window: Grid, shift: Grid) -> None:
    made = block(window, shift)
    x = torch.randn(2, *grid, WIDTH, dtype=torch.float64)
    torch.testing.assert_close(made(x), plain(made, x), rtol=1e-9, atol=1e-11)


@cases
def test_a_place_is_seen_in_its_window_alone(grid: Grid, window: Grid, shift: Grid) -> None:
    made = block(window, shift)
    x = torch.randn(1, *grid, WIDTH, dtype=torch.float64, requires_grad=True)
    row, col = grid[0] - 1, grid[1] // 2
    made(x)[0, row, col].sum().backward()
    assert x.grad is not None
    seen = x.grad[0].abs().amax(-1) > 1e-12
    wanted = torch.zeros(grid, dtype=torch.bool)
    rows = next(part for part in segments(grid[0], window[0], shift[0]) if row in part)
    cols = next(part for part in segments(grid[1], window[1], shift[1]) if col in part)
    wanted[rows.start : rows.stop, cols.start : cols.stop] = True
    assert torch.equal(seen, wanted)


def test_the_weights_are_those_of_each_window_and_their_rows_sum_to_one() -> None:
    made = block((2, 2), (1, 1))
    windows = torch.randn(3, 2, 2, 4, WIDTH, dtype=torch.float64)
    weights = made.attention.weights(windows)
    assert weights.shape == (3, 2, 2, HEADS, 4, 4)
    torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))
    some = made.attention.weights(windows, slice(1, 2), slice(1, 3))
    torch.testing.assert_close(some, weights[..., 1:2, 1:3, :])
    corner = weights[:, 1, 1]  # four places from the four corners of the map: each sees itself
    torch.testing.assert_close(corner, torch.eye(4, dtype=torch.float64).expand_as(corner))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_sees_the_same_windows(dtype: torch.dtype) -> None:
    made = block((2, 2), (1, 1)).float()
    x = torch.randn(2, 4, 4, WIDTH)
    with torch.autocast("cpu", dtype):
        close = made(x).float()
    torch.testing.assert_close(close, made(x), rtol=0.1, atol=0.5)


def test_whole_samples_are_left_out_in_stochastic_depth() -> None:
    made = block((2, 2), (0, 0), skip=0.5).train()
    x = torch.randn(64, 2, 2, WIDTH, dtype=torch.float64)
    same = (made(x) == x).flatten(1).all(1)
    assert 4 < same.sum() < 32  # a quarter loses both branches
