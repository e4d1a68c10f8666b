"""Warps put pixels where Pillow puts them; rectangles lie where they should."""

from collections.abc import Callable
from typing import Literal

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor
from torch.nn import functional as F

from patchwords.data.augment import geometry

HEIGHT, WIDTH = SIZE = (57, 71)
FILL = 128 / 255
RESAMPLING = {"bilinear": Image.Resampling.BILINEAR, "nearest": Image.Resampling.NEAREST}


@pytest.fixture(scope="module")
def picture() -> Tensor:
    """(3, height, width), whole levels; smooth, so that a pixel that lies elsewhere is a small difference."""
    generator = torch.Generator().manual_seed(3)
    coarse = torch.rand(1, 3, 9, 11, generator=generator)
    return (F.interpolate(coarse, SIZE, mode="bilinear")[0] * 255).round() / 255


def to_pillow(picture: Tensor) -> Image.Image:
    return Image.fromarray((picture * 255).round().byte().permute(1, 2, 0).numpy())


def from_pillow(image: Image.Image) -> Tensor:
    return torch.from_numpy(np.array(image)).permute(2, 0, 1).float() / 255


def warped(picture: Tensor, numbers: np.ndarray, mode: Literal["bilinear", "nearest"]) -> Tensor:
    """Several warps of one picture, in one call."""
    batch = numbers.shape[1]
    columns = torch.from_numpy(numbers).float().unbind(0)
    return geometry.warp(picture.expand(batch, *picture.shape), columns, torch.full((batch,), FILL), mode)


def levels_apart(ours: Tensor, theirs: Image.Image) -> Tensor:
    return ((ours - from_pillow(theirs)) * 255).abs()


AMOUNTS = {
    geometry.rotation: [-135.0, -27.0, 0.0, 9.3, 30.0, 90.0],
    geometry.shear_x: [-0.99, -0.27, 0.0, 0.3],
    geometry.shear_y: [-0.3, 0.0, 0.11, 0.99],
    geometry.translation_x: [-30.0, -3.7, 0.0, 12.3, 200.0],
    geometry.translation_y: [-30.0, 0.0, 3.2, 25.8],
}


@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
@pytest.mark.parametrize("kind", AMOUNTS)
def test_a_warp_is_pillows_transform(
    picture: Tensor,
    kind: Callable[[np.ndarray, geometry.Size], np.ndarray],
    mode: Literal["bilinear", "nearest"],
) -> None:
    numbers = kind(np.array(AMOUNTS[kind]), SIZE)
    for ours, matrix in zip(warped(picture, numbers, mode), numbers.T, strict=True):
        theirs = to_pillow(picture).transform(
            (WIDTH, HEIGHT), Image.Transform.AFFINE, tuple(matrix), RESAMPLING[mode], fillcolor=(128, 128, 128)
        )
        apart = levels_apart(ours, theirs)
        if mode == "bilinear":
            assert apart.max() < 1 + 1e-3  # Pillow cuts fractions of a level off
        else:
            assert (apart > 1e-3).float().mean() < 0.01  # halfway between two pixels, rounding decides


@pytest.mark.parametrize("degrees", [-27.0, 13.0, 100.0])
def test_a_rotation_is_pillows(picture: Tensor, degrees: float) -> None:
    (ours,) = warped(picture, geometry.rotation(np.array([degrees]), SIZE), "bilinear")
    theirs = to_pillow(picture).rotate(degrees, Image.Resampling.BILINEAR, fillcolor=(128, 128, 128))
    assert levels_apart(ours, theirs).max() < 1 + 1e-3


@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
def test_whole_pixels_move_without_loss(picture: Tensor, mode: Literal["bilinear", "nearest"]) -> None:
    (left,) = warped(picture, geometry.translation_x(np.array([5.0]), SIZE), mode)
    (up,) = warped(picture, geometry.translation_y(np.array([7.0]), SIZE), mode)
    torch.testing.assert_close(left[:, :, :-5], picture[:, :, 5:], atol=1e-5, rtol=0)
    torch.testing.assert_close(up[:, :-7], picture[:, 7:], atol=1e-5, rtol=0)
    assert (left[:, :, -5:] == torch.tensor(FILL)).all()
    assert (up[:, -7:] == torch.tensor(FILL)).all()


def test_pictures_may_lie_outside_altogether(picture: Tensor) -> None:
    (gone,) = warped(picture, geometry.translation_x(np.array([float(WIDTH)]), SIZE), "bilinear")
    assert (gone == torch.tensor(FILL)).all()


@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
def test_a_picture_does_not_mind_its_neighbours(mode: Literal["bilinear", "nearest"]) -> None:
    images = torch.rand(9, 3, 39, 43)
    columns = torch.from_numpy(geometry.rotation(np.linspace(-60, 60, 9), (39, 43))).float()
    fill = torch.linspace(0, 1, 9)
    together = geometry.warp(images, columns.unbind(0), fill, mode)
    for i in range(9):
        (alone,) = geometry.warp(images[i : i + 1], columns[:, i : i + 1].unbind(0), fill[i : i + 1], mode)
        assert torch.equal(together[i], alone)


def test_mirroring_is_pillows(picture: Tensor) -> None:
    theirs = to_pillow(picture).transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    assert torch.allclose(geometry.mirror(picture[None])[0], from_pillow(theirs))


def test_a_square_may_reach_over_the_edge() -> None:
    box = geometry.square(np.array([4.0, 4.0]), np.array([[0.0, 0.5], [0.0, 0.5]]), (20, 30))
    assert box.T.tolist() == [[-4, -4, 4, 4], [6, 11, 14, 19]]
    images = torch.ones(2, 3, 20, 30)
    covered = geometry.cover(images, torch.zeros(()), *torch.from_numpy(box).float().unbind(0))
    assert (covered == 0).sum((1, 2, 3)).tolist() == [3 * 4 * 4, 3 * 8 * 8]
    assert not covered[1, :, 6:14, 11:19].any()


def test_rectangles_have_the_papers_areas_and_aspects() -> None:
    uniform = np.random.default_rng(0).random((4000, geometry.RECTANGLE_DRAWS))
    boxes, fits = geometry.rectangles(uniform, (224, 224))
    top, left, bottom, right = boxes.T
    area, aspect = (bottom - top) * (right - left) / 224**2, (bottom - top) / (right - left)
    assert fits.all()
    assert (boxes >= 0).all()
    assert (boxes <= 224).all()
    assert area.min() > 0.019
    assert area.max() < 0.336
    assert area.mean() == pytest.approx((0.02 + 1 / 3) / 2, abs=0.01)
    assert aspect.min() < 0.33
    assert aspect.max() > 3.0
    assert np.log(aspect).mean() == pytest.approx(0, abs=0.05)


def test_a_rectangle_as_high_as_the_picture_is_drawn_again() -> None:
    uniform = np.zeros((1, geometry.RECTANGLE_DRAWS))
    uniform[:, : geometry.TRIES] = 1.0  # the largest area
    uniform[:, geometry.TRIES] = 1.0  # and first the highest form, which is higher than the picture
    uniform[:, geometry.TRIES + 1 : -2] = 0.5
    boxes, fits = geometry.rectangles(uniform, (100, 100))
    assert fits.all()
    assert boxes.tolist() == [[0, 0, 58, 58]]


def test_a_rectangle_never_takes_the_last_pixel() -> None:
    boxes, fits = geometry.rectangles(np.random.default_rng(0).random((50, geometry.RECTANGLE_DRAWS)), (1, 1))
    assert (boxes[fits, :2] == boxes[fits, 2:]).all()
