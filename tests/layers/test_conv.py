"""Standardised kernels with both epsilons, and the numbers of both paddings."""

import pytest
import torch
from torch.nn import functional as F

from patchwords.layers.conv import Standardise, StandardisedConv, pad, same


@pytest.mark.parametrize("scale", [1.0, 1e-3])
@pytest.mark.parametrize("to", ["deviation", "variance"])
def test_a_kernel_is_standardised_for_each_output_channel(to: str, scale: float) -> None:
    epsilon = 1e-2
    kernel = (scale * torch.randn(4, 3, 2, 5) + 0.3).double()
    result = Standardise(to=to, epsilon=epsilon)(kernel)
    for channel in range(4):
        values = kernel[channel].flatten().tolist()
        mean = sum(values) / len(values)
        variance = sum((value - mean) ** 2 for value in values) / len(values)
        divisor = variance**0.5 + epsilon if to == "deviation" else (variance + epsilon) ** 0.5
        torch.testing.assert_close(result[channel], (kernel[channel] - mean) / divisor)


def test_the_official_epsilon_is_added_to_the_deviation() -> None:
    assert Standardise() == Standardise(to="deviation", epsilon=1e-5)
    kernel = torch.tensor([1e-5, -1e-5], dtype=torch.float64).reshape(1, 2, 1, 1)
    torch.testing.assert_close(Standardise()(kernel).flatten().tolist(), [0.5, -0.5])


def test_a_constant_kernel_becomes_zero_and_not_infinite() -> None:
    kernel = torch.full((2, 3, 3, 3), 0.7, dtype=torch.float64)
    for standardise in (Standardise(), Standardise(to="variance", epsilon=1e-10)):
        torch.testing.assert_close(standardise(kernel), torch.zeros_like(kernel), rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("size", "kernel", "stride", "padding"),
    [
        (224, 7, 2, (2, 3)),  # the root
        (112, 3, 2, (0, 1)),  # the maximum after it, and convolutions that halve
        (56, 3, 2, (0, 1)),
        (225, 7, 2, (3, 3)),
        (7, 3, 2, (1, 1)),
        (56, 3, 1, (1, 1)),
        (56, 1, 1, (0, 0)),
        (56, 1, 2, (0, 0)),
    ],
)
def test_same_padding_has_its_odd_pixel_behind(size: int, kernel: int, stride: int, padding: tuple[int, int]) -> None:
    assert same(size, kernel, stride) == padding


@pytest.mark.parametrize("kernel", [1, 3, 7])
@pytest.mark.parametrize("stride", [1, 2])
def test_same_padding_gives_size_over_stride_rounded_up(kernel: int, stride: int) -> None:
    for height, width in [(8, 9), (13, 6), (1, 2)]:
        padded = pad(torch.zeros(1, 1, height, width), kernel, stride, "same")
        output = F.max_pool2d(padded, kernel, stride)
        assert output.shape[2:] == (-(-height // stride), -(-width // stride))


def test_same_padding_puts_zeros_above_and_below_left_and_right_by_their_own_axes() -> None:
    padded = pad(torch.ones(1, 1, 8, 9), 3, 2, "same")[0, 0]
    assert padded.shape == (9, 11)  # nothing above, one below; one left, one right
    assert (padded[:8, 1:10] == 1).all()
    assert padded.sum() == 72


@pytest.mark.parametrize(("kernel", "side"), [(1, 0), (3, 1), (7, 3)])
def test_symmetric_padding_is_half_the_kernel_on_each_side(kernel: int, side: int) -> None:
    padded = pad(torch.ones(1, 1, 8, 9), kernel, 2, "symmetric")[0, 0]
    assert padded.shape == (8 + 2 * side, 9 + 2 * side)
    assert (padded[side : side + 8, side : side + 9] == 1).all()
    assert padded.sum() == 72


@pytest.mark.parametrize("padding", ["same", "symmetric"])
def test_the_convolution_uses_the_standardised_kernel_and_the_padding(padding: str) -> None:
    conv = StandardisedConv(2, 3, 3, 2, padding, Standardise(epsilon=0.1)).double()
    x = torch.randn(1, 2, 6, 8, dtype=torch.float64)
    kernel = Standardise(epsilon=0.1)(conv.weight)
    before = 0 if padding == "same" else 1
    for row in range(3):
        for col in range(4):
            expected = torch.zeros(3, dtype=torch.float64)
            for i in range(3):
                for j in range(3):
                    y, z = 2 * row + i - before, 2 * col + j - before
                    if 0 <= y < 6 and 0 <= z < 8:
                        expected += kernel[:, :, i, j] @ x[0, :, y, z]
            torch.testing.assert_close(conv(x)[0, :, row, col], expected)
    assert set(conv.state_dict()) == {"weight"}


def test_the_scale_of_a_kernel_does_not_matter_but_for_epsilon() -> None:
    conv = StandardisedConv(2, 3, 3, 1, "same", Standardise()).double()
    x = torch.randn(1, 2, 6, 8, dtype=torch.float64)
    before = conv(x)
    with torch.no_grad():
        conv.weight.mul_(5).add_(2)
    torch.testing.assert_close(conv(x), before, rtol=1e-3, atol=1e-4)
