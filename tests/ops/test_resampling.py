"""Section 3.2: tables and kernels for another resolution, as each code base computes them."""

import pytest
import torch
from scipy import ndimage
from torch import Tensor
from torch.nn import functional as F

from patchwords.ops.resampling import CONVENTIONS, Convention, resample_line, resample_table, resize_kernel

WIDTH = 6


def table(special: int, grid: tuple[int, int]) -> Tensor:
    return torch.randn(1, special + grid[0] * grid[1], WIDTH)


@pytest.mark.parametrize(("old", "new"), [(14, 24), (7, 12), (14, 32), (24, 14), (5, 3), (2, 9)])
def test_the_paper_resamples_as_scipy_zooms_with_order_1_and_keeps_the_class_row(old: int, new: int) -> None:
    before = table(1, (old, old))
    after = resample_table(before, (old, old), (new, new), "paper")
    square = before[0, 1:].reshape(old, old, WIDTH).numpy()
    zoomed = ndimage.zoom(square, (new / old, new / old, 1), order=1)
    assert torch.equal(after[:, :1], before[:, :1])
    torch.testing.assert_close(after[0, 1:], torch.from_numpy(zoomed).reshape(new * new, WIDTH), rtol=0, atol=1e-5)


def test_the_paper_is_the_default() -> None:
    before = table(1, (7, 7))
    assert torch.equal(resample_table(before, (7, 7), (9, 9)), resample_table(before, (7, 7), (9, 9), "paper"))


@pytest.mark.parametrize("special", [0, 1, 3])
@pytest.mark.parametrize(("old", "new"), [((14, 14), (24, 24)), ((6, 4), (5, 9)), ((6, 4), (3, 2))])
@pytest.mark.parametrize("convention", CONVENTIONS)
def test_each_convention_is_the_interpolation_of_its_code_base(
    convention: Convention, old: tuple[int, int], new: tuple[int, int], special: int
) -> None:
    before = table(special, old)
    picture = before[:, special:].reshape(1, *old, WIDTH).permute(0, 3, 1, 2)
    match convention:
        case "paper":
            picture = F.interpolate(picture, size=new, mode="bilinear", align_corners=True)
        case "bicubic":
            picture = F.interpolate(picture, size=new, mode="bicubic", align_corners=False, antialias=False)
        case "bicubic-antialias":
            picture = F.interpolate(picture, size=new, mode="bicubic", align_corners=False, antialias=True)
        case "torchvision":
            picture = F.interpolate(picture, size=new, mode="bicubic", align_corners=True)
    rows = picture.permute(0, 2, 3, 1).reshape(1, new[0] * new[1], WIDTH)
    after = resample_table(before, old, new, convention)
    torch.testing.assert_close(after, torch.cat([before[:, :special], rows], 1))


def test_no_two_conventions_agree() -> None:
    before = table(1, (14, 14))
    results = [resample_table(before, (14, 14), (10, 10), convention) for convention in CONVENTIONS]
    for i, first in enumerate(results):
        for second in results[:i]:
            assert (first - second).abs().max() > 0.1


@pytest.mark.parametrize("convention", CONVENTIONS)
def test_the_same_grid_changes_nothing(convention: Convention) -> None:
    before = table(1, (4, 3))
    assert resample_table(before, (4, 3), (4, 3), convention) is before


def test_a_grid_of_the_same_number_of_patches_but_another_shape_is_resampled() -> None:
    before = table(0, (4, 3))
    after = resample_table(before, (4, 3), (3, 4))
    assert after.shape == before.shape
    assert not torch.equal(after, before)


def test_corners_stay_on_corners_in_a_picture_that_is_not_square() -> None:
    before = table(0, (4, 3))
    after = resample_table(before, (4, 3), (7, 9)).reshape(7, 9, WIDTH)
    square = before.reshape(4, 3, WIDTH)
    for row in (0, -1):
        for col in (0, -1):
            torch.testing.assert_close(after[row, col], square[row, col])


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_the_type_of_a_table_is_kept(dtype: torch.dtype) -> None:
    assert resample_table(table(1, (4, 4)).to(dtype), (4, 4), (6, 6)).dtype == dtype
    assert resample_line(torch.zeros(4, 2, dtype=dtype), 7).dtype == dtype
    assert resize_kernel(torch.zeros(2, 3, 4, 4, dtype=dtype), (6, 6)).dtype == dtype


@pytest.mark.parametrize("length", [2, 5, 9, 30])
def test_a_stretched_line_keeps_linear_functions_and_its_ends(length: int) -> None:
    start, slope = torch.randn(2, WIDTH, dtype=torch.float64).unbind(0)
    before = start + slope * torch.linspace(0, 1, 9, dtype=torch.float64)[:, None]
    after = resample_line(before, length)
    expected = start + slope * torch.linspace(0, 1, length, dtype=torch.float64)[:, None]
    torch.testing.assert_close(after, expected, rtol=1e-5, atol=1e-6)


def test_a_line_of_the_same_length_is_left_alone() -> None:
    before = torch.randn(9, WIDTH)
    assert resample_line(before, 9) is before


@pytest.mark.parametrize("new", [(16, 16), (12, 20), (9, 8)])
def test_a_resized_kernel_gives_on_enlarged_patches_what_the_old_one_gave_on_the_patches(new: tuple[int, int]) -> None:
    kernel = torch.randn(5, 3, 8, 8, dtype=torch.float64)
    patches = torch.randn(10, 3, 8, 8, dtype=torch.float64)
    enlarged = F.interpolate(patches, size=new, mode="bilinear", align_corners=False)
    before = torch.einsum("bchw,dchw->bd", patches, kernel)
    after = torch.einsum("bchw,dchw->bd", enlarged, resize_kernel(kernel, new))
    torch.testing.assert_close(after, before)


def test_a_smaller_kernel_is_the_best_there_is_on_random_patches() -> None:
    kernel = torch.randn(5, 3, 8, 8, dtype=torch.float64)
    basis = torch.eye(64, dtype=torch.float64).reshape(64, 1, 8, 8)
    shrink = F.interpolate(basis, size=(4, 6), mode="bilinear", align_corners=False, antialias=True).flatten(1)
    best = torch.linalg.lstsq(shrink, kernel.flatten(2).flatten(0, 1).mT).solution  # (24, 15)
    torch.testing.assert_close(resize_kernel(kernel, (4, 6)), best.mT.reshape(5, 3, 4, 6))


def test_a_kernel_of_the_same_size_is_left_alone() -> None:
    kernel = torch.randn(5, 3, 8, 8)
    assert resize_kernel(kernel, (8, 8)) is kernel
