"""Cut on a device, pictures of different sizes come out as Pillow resizes them: the plain way, and by the kernel."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from patchwords.data import stack
from patchwords.data.preprocess import Interpolation
from patchwords.data.stack import cut_pictures, fastest, regions
from patchwords.data.transforms import FILTERS, _resample

INTERPOLATIONS: list[Interpolation] = ["bilinear", "bicubic", "lanczos"]
SIDES = [(50, 61), (33, 42), (60, 40), (17, 17), (1, 9)]


def boxes(size: tuple[int, int]) -> np.ndarray:
    step = np.array(SIDES[1]) / size
    return np.array(
        [
            [3.0, 4.0, 45.0, 50.0],  # made smaller
            [*(-2 * step), *(np.array(SIDES[1]) - 2 * step)],  # reaches over the edges, by two pixels
            [0.0, 0.0, 60.0, 40.0],  # all of it
            [1.5, 2.5, 9.25, 10.5],  # made larger, from parts of pixels on
            [0.0, 2.0, 1.0, 7.0],
        ]
    )


@pytest.fixture
def pictures() -> list[Tensor]:
    """(3, height, width) each, one of them lying otherwise in memory; rough, so that every weight counts.

    Not so rough that it is cut off at black or white: there it matters which axis comes first, and Pillow chooses.
    """
    every = [torch.randint(64, 192, (3, *sides), dtype=torch.uint8) for sides in SIDES]
    every[2] = torch.randint(64, 192, (60, 40, 3), dtype=torch.uint8).permute(2, 0, 1)
    return every


def by_pillow(
    pictures: list[Tensor], boxes: np.ndarray, size: tuple[int, int], interpolation: Interpolation
) -> np.ndarray:
    images = [Image.fromarray(picture.permute(1, 2, 0).contiguous().numpy()) for picture in pictures]
    resample = FILTERS[interpolation]
    return np.stack([_resample((image,), box, size, resample) for image, box in zip(images, boxes, strict=True)])


Cutting = Callable[[list[Tensor], np.ndarray, tuple[int, int], Interpolation], Tensor]


def kernel() -> Cutting:
    triton = pytest.importorskip("patchwords.data.stack_triton", reason="Triton is not installed")
    cut: Cutting = triton.cut_pictures
    return cut


def assert_as_pillow(
    cutting: Cutting,
    pictures: list[Tensor],
    size: tuple[int, int],
    kind: Interpolation,
) -> None:
    found = cutting(pictures, boxes(size), size, kind)
    assert found.shape == (len(pictures), 3, *size)
    assert found.dtype == torch.uint8
    wanted = by_pillow([each.cpu() for each in pictures], boxes(size), size, kind)
    difference = np.abs(found.cpu().numpy().astype(int) - wanted)
    assert difference.max() <= 2
    assert (difference > 1).mean() < 0.001
    assert difference.mean() < 0.15


@pytest.mark.parametrize("size", [(24, 40), (17, 9)])
@pytest.mark.parametrize("kind", INTERPOLATIONS)
def test_boxes_are_cut_as_pillow_cuts_them(pictures: list[Tensor], kind: Interpolation, size: tuple[int, int]) -> None:
    assert_as_pillow(cut_pictures, pictures, size, kind)


@pytest.mark.parametrize("size", [(18, 21), (24, 40)])
@pytest.mark.parametrize("kind", INTERPOLATIONS)
def test_the_kernel_cuts_them_so_too(
    pictures: list[Tensor], kind: Interpolation, size: tuple[int, int], device: torch.device
) -> None:
    assert_as_pillow(kernel(), [picture.to(device) for picture in pictures], size, kind)


@pytest.mark.gpu
@pytest.mark.parametrize("kind", INTERPOLATIONS)
def test_a_gpu_cuts_them_so_too(pictures: list[Tensor], kind: Interpolation) -> None:
    assert_as_pillow(cut_pictures, [picture.cuda() for picture in pictures], (24, 40), kind)


@pytest.mark.parametrize("most", [1, 20_000, 60_000])
def test_how_many_are_cut_at_a_time_does_not_matter(
    pictures: list[Tensor], most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = cut_pictures(pictures, boxes((12, 16)), (12, 16), "bilinear")
    monkeypatch.setattr(stack, "MOST", most)
    assert torch.equal(cut_pictures(pictures, boxes((12, 16)), (12, 16), "bilinear"), whole)


def test_a_region_holds_all_that_its_box_can_see(pictures: list[Tensor]) -> None:
    sides = np.array(SIDES)
    start, stop = regions(boxes((12, 16)), sides, (12, 16), "lanczos")
    assert (start >= 0).all()
    assert (stop <= sides).all()
    assert (stop > start).all()
    others = [torch.full_like(picture, 7) for picture in pictures]
    for other, picture, (top, left), (bottom, right) in zip(others, pictures, start, stop, strict=True):
        other[:, top:bottom, left:right] = picture[:, top:bottom, left:right]
    found = cut_pictures(others, boxes((12, 16)), (12, 16), "lanczos")
    assert torch.equal(found, cut_pictures(pictures, boxes((12, 16)), (12, 16), "lanczos"))


def test_the_kernel_is_for_gpus_and_its_absence_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    notes: list[str] = []
    assert fastest(torch.device("cpu"), notes.append) is cut_pictures
    assert notes == []
    monkeypatch.setattr(stack, "find_spec", lambda name: None)
    assert fastest(torch.device("cuda"), notes.append) is cut_pictures
    (note,) = notes
    assert "Triton is not installed" in note
