"""Figure 6: the mask is the map, resized and blurred, from 0 to 1; the picture is dark where it is 0."""

import numpy as np
import pytest
from PIL import Image, ImageFilter

from patchwords.inspection.overlay import DARK, mask, overlay


def random_map(rows: int = 5, cols: int = 7, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).random((rows, cols)).astype(np.float32)


def scaled(values: np.ndarray) -> np.ndarray:
    return (values - values.min()) / (values.max() - values.min())


@pytest.mark.parametrize("size", [(40, 56), (64, 33), (3, 4), (5, 7)])
def test_a_mask_has_the_size_of_the_picture_and_goes_from_0_to_1(size: tuple[int, int]) -> None:
    found = mask(random_map(), size, 2.0)
    assert found.shape == size
    assert found.dtype == np.float32
    assert (found.min(), found.max()) == (0, 1)


def test_without_a_blur_the_mask_is_pillows_lanczos() -> None:
    resized = Image.fromarray(random_map()).resize((70, 40), Image.Resampling.LANCZOS)
    np.testing.assert_allclose(mask(random_map(), (40, 70), 1e-3), scaled(np.asarray(resized)), atol=1e-5)


def test_the_blur_is_gaussian_as_pillow_has_it() -> None:
    resized = np.asarray(Image.fromarray(random_map(6, 6)).resize((96, 96), Image.Resampling.LANCZOS))
    grey = Image.fromarray(np.rint(255 * scaled(resized)).astype(np.uint8))
    blurred = np.asarray(grey.filter(ImageFilter.GaussianBlur(16))) / 255
    found = blurred.min() + np.ptp(blurred) * mask(random_map(6, 6), (96, 96), 16)
    assert np.abs(found - blurred).max() < 0.04  # Pillow's is made of three boxes, and of bytes


def test_a_point_becomes_a_gaussian_of_this_radius() -> None:
    point = np.zeros((1, 61), dtype=np.float32)
    point[0, 30] = 7
    distance = np.arange(61) - 30
    np.testing.assert_allclose(mask(point, (1, 61), 5)[0], np.exp(-(distance**2) / 50), atol=1e-3)


def test_the_radius_is_one_patch_unless_it_is_given() -> None:
    np.testing.assert_array_equal(mask(random_map(4, 6), (64, 96)), mask(random_map(4, 6), (64, 96), 16))
    assert not np.array_equal(mask(random_map(4, 6), (64, 96)), mask(random_map(4, 6), (64, 96), 8))


def test_what_is_looked_at_is_brightest_where_it_is() -> None:
    spot = np.zeros((4, 6), dtype=np.float32)
    spot[1, 4] = 0.3
    found = mask(spot, (64, 96))
    row, col = np.unravel_index(found.argmax(), found.shape)
    assert (row // 16, col // 16) == (1, 4)
    assert found[0, 0] < 0.05


def test_a_symmetric_map_gives_a_symmetric_mask() -> None:
    spot = np.zeros((5, 7), dtype=np.float32)
    spot[2, 3] = 1
    found = mask(spot, (80, 56))
    np.testing.assert_allclose(found, found[::-1, ::-1], atol=1e-6)
    np.testing.assert_allclose(found, found[:, ::-1], atol=1e-6)


def test_the_scale_of_a_map_does_not_matter() -> None:
    np.testing.assert_allclose(mask(1e-6 * random_map(), (40, 56)), mask(random_map(), (40, 56)), atol=1e-5)


def test_a_map_of_zeros_stays_one() -> None:
    assert not mask(np.zeros((4, 4), dtype=np.float32), (32, 32)).any()


def test_a_map_that_is_the_same_everywhere_hides_nothing() -> None:
    for rows, cols in ((14, 14), (1, 1), (3, 5)):
        assert (mask(np.full((rows, cols), 1 / (rows * cols), dtype=np.float32), (50, 41)) == 1).all()


def test_a_picture_stays_where_the_mask_is_1_and_goes_dark_where_it_is_0() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (4, 6, 3), dtype=np.uint8)
    light = np.zeros((4, 6), dtype=np.float32)
    light[:, 3:] = 1
    found = overlay(pixels, light)
    assert found.dtype == np.uint8
    assert (found[:, 3:] == pixels[:, 3:]).all()
    assert (found[:, :3] == np.rint(pixels[:, :3] * DARK)).all()


def test_light_in_between_is_in_between() -> None:
    pixels = np.full((1, 3, 3), 200, dtype=np.uint8)
    dark, half, bright = overlay(pixels, np.array([[0, 0.5, 1]], dtype=np.float32))[0, :, 0].tolist()
    assert dark < half < bright == 200
    assert half == (dark + bright) / 2
