"""Rows of patches hold every pixel once, where a convolution would read it."""

import pytest
import torch
from torch.nn import functional as F

from patchwords.speed.kernels import patches as plain

patches_triton = pytest.importorskip("patchwords.speed.kernels.patches_triton", reason="Triton is not installed")

# batch, channels, height, width and a patch: several patches across, one, oblong ones, more pixels than a program takes
PICTURES = [((2, 3, 8, 12), (4, 4)), ((1, 1, 7, 7), (7, 7)), ((3, 2, 6, 10), (3, 5)), ((1, 1, 4, 520), (2, 8))]


@pytest.mark.parametrize(("shape", "patch"), PICTURES)
@pytest.mark.parametrize("last", ["pixels", "channels"])
def test_the_kernel_reads_as_its_twin(
    shape: tuple[int, int, int, int], patch: tuple[int, int], last: str, device: torch.device
) -> None:
    images = torch.randn(shape, device=device)
    if last == "channels":
        images = images.to(memory_format=torch.channels_last)
    for dtype in (torch.float32, torch.float16):
        found = patches_triton.patches(images, patch, dtype)
        assert found.dtype == dtype
        assert torch.equal(found, plain.patches(images, patch, dtype))


@pytest.mark.parametrize(("shape", "patch"), PICTURES)
def test_the_twin_is_what_a_convolution_reads(shape: tuple[int, int, int, int], patch: tuple[int, int]) -> None:
    images = torch.randn(shape, dtype=torch.float64)
    weight = torch.randn(5, shape[1], *patch, dtype=torch.float64)
    found = plain.patches(images, patch, torch.float64) @ weight.flatten(1).T
    expected = F.conv2d(images, weight, stride=patch).flatten(2).mT.flatten(0, 1)
    torch.testing.assert_close(found, expected)
