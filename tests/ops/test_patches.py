"""Section 3.1: cutting into patches loses nothing, and the patch embedding is a convolution."""

import re

import pytest
import torch
from torch.nn import functional as F

from patchwords.errors import UsageError
from patchwords.ops.patches import grid, patchify, unpatchify

SHAPES = [((8, 8), (4, 4), 3), ((6, 8), (2, 4), 3), ((4, 10), (4, 5), 1), ((3, 3), (1, 1), 5)]


@pytest.mark.parametrize(("image", "patch", "channels"), SHAPES)
def test_a_patch_is_its_pixels_row_by_row_and_channels_last(
    image: tuple[int, int], patch: tuple[int, int], channels: int
) -> None:
    images = torch.randn(2, channels, *image)
    patches = patchify(images, patch)
    rows, cols = image[0] // patch[0], image[1] // patch[1]
    assert patches.shape == (2, rows * cols, patch[0] * patch[1] * channels)
    for row in range(rows):
        for col in range(cols):
            cut = images[:, :, row * patch[0] : (row + 1) * patch[0], col * patch[1] : (col + 1) * patch[1]]
            assert torch.equal(patches[:, row * cols + col], cut.permute(0, 2, 3, 1).flatten(1))


@pytest.mark.parametrize(("image", "patch", "channels"), SHAPES)
def test_a_convolution_of_kernel_and_stride_p_is_each_flat_patch_times_e(
    image: tuple[int, int], patch: tuple[int, int], channels: int
) -> None:
    images = torch.randn(2, channels, *image, dtype=torch.float64)
    kernel = torch.randn(7, channels, *patch, dtype=torch.float64)
    matrix = kernel.permute(2, 3, 1, 0).flatten(0, 2)  # (patch height · patch width · channels, width)
    convolved = F.conv2d(images, kernel, stride=patch).flatten(2).mT
    torch.testing.assert_close(patchify(images, patch) @ matrix, convolved)


@pytest.mark.parametrize(("image", "patch", "channels"), SHAPES)
def test_unpatchify_is_the_inverse(image: tuple[int, int], patch: tuple[int, int], channels: int) -> None:
    images = torch.randn(2, channels, *image)
    assert torch.equal(unpatchify(patchify(images, patch), patch, grid(image, patch)), images)


def test_rows_come_before_columns() -> None:
    assert grid((32, 24), (8, 4)) == (4, 6)


@pytest.mark.parametrize("image", [(225, 224), (224, 230), (0, 224), (224, 0), (8, 8)])
def test_a_picture_that_the_patch_does_not_divide_is_refused(image: tuple[int, int]) -> None:
    sentence = (
        f"image {image[0]}x{image[1]} is not a multiple of patch 16x16: "
        "choose a patch that divides it, or resize the image"
    )
    with pytest.raises(UsageError, match=f"^{re.escape(sentence)}$"):
        grid(image, (16, 16))
    with pytest.raises(UsageError):
        patchify(torch.zeros(1, 3, *image), (16, 16))
