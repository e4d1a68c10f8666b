"""What is cut out of a picture, by which law and how exactly."""

import io
import math
import time

import numpy as np
import pytest
import torch
from PIL import Image

from patchwords.data.picture import BACK
from patchwords.data.preprocess import IMAGENET, Preprocess
from patchwords.data.transforms import (
    CropKind,
    PaddedCrop,
    RandomCrop,
    WholeCrop,
    boxes,
    cut,
    cut_stack,
    normalise,
    prepare,
    shifted,
    standardise,
    whole_box,
)
from patchwords.errors import UsageError
from patchwords.settings import read, write

CROPS: list[CropKind] = [RandomCrop(), RandomCrop(sampling="inception"), PaddedCrop(), WholeCrop()]


def smooth(height: int, width: int) -> np.ndarray:
    rows, cols = np.mgrid[0:height, 0:width]
    waves = [128 + 100 * np.sin(rows / 23 + turn) * np.cos(cols / 31) for turn in (0, 1, 2)]
    return np.stack(waves, axis=2).astype(np.uint8)


def noise(height: int, width: int, channels: int = 3) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (height, width, channels), dtype=np.uint8)


def jpeg(pixels: np.ndarray, turn: int = 1) -> bytes:
    tags = Image.Exif()
    tags[0x0112] = turn
    image = Image.fromarray(pixels)
    file = io.BytesIO()
    (image.transpose(BACK[turn]) if turn != 1 else image).save(file, "JPEG", quality=95, exif=tags)
    return file.getvalue()


def drawn(crop: CropKind, height: int, width: int, count: int, preprocess: Preprocess = IMAGENET) -> np.ndarray:
    sizes = np.tile([height, width], (count, 1))
    return boxes(crop, sizes, preprocess, seed=7, views=np.zeros(count, np.int64), indices=np.arange(count))


def areas(found: np.ndarray) -> np.ndarray:
    return (found[:, 2] - found[:, 0]) * (found[:, 3] - found[:, 1])


def aspects(found: np.ndarray) -> np.ndarray:
    return (found[:, 3] - found[:, 1]) / (found[:, 2] - found[:, 0])


# The laws


@pytest.mark.parametrize("sampling", ["uniform", "inception"])
@pytest.mark.parametrize(("height", "width"), [(300, 500), (17, 13), (8, 8), (1, 1), (40, 400), (2000, 3)])
def test_random_boxes_are_whole_pixels_inside_the_picture(sampling: str, height: int, width: int) -> None:
    found = drawn(read({"sampling": sampling}, RandomCrop), height, width, 500)
    assert (found == np.rint(found)).all()
    assert (found[:, :2] >= 0).all()
    assert (found[:, 2:] <= [height, width]).all()
    assert (found[:, 2:] > found[:, :2]).all()


def test_uniform_sampling_is_uniform_in_area_and_log_uniform_in_aspect() -> None:
    found = drawn(RandomCrop(scale=(0.1, 0.5)), 1000, 1000, 20_000)
    share = (areas(found) / 1e6 - 0.1) / 0.4
    ratio = (np.log(aspects(found)) - math.log(3 / 4)) / (math.log(4 / 3) - math.log(3 / 4))
    for numbers in (share, ratio):
        assert np.allclose(np.quantile(numbers, [0.1, 0.25, 0.5, 0.75, 0.9]), [0.1, 0.25, 0.5, 0.75, 0.9], atol=0.02)
    room = 1000 - (found[:, 2:] - found[:, :2])
    assert np.allclose((found[:, :2] / room).mean(axis=0), 0.5, atol=0.01)
    assert abs(np.corrcoef(share, ratio)[0, 1]) < 0.02


def test_inception_sampling_is_uniform_in_height_so_small_areas_come_more_often() -> None:
    crop = RandomCrop(scale=(0.05, 1.0), ratio=(1.0, 1.0), sampling="inception")
    found = drawn(crop, 1000, 1000, 20_000)
    sides = found[:, 2] - found[:, 0]
    least = round(math.sqrt(0.05) * 1000)
    wanted = least + (1000 - least) * np.array([0.1, 0.25, 0.5, 0.75, 0.9])
    assert np.allclose(np.quantile(sides, [0.1, 0.25, 0.5, 0.75, 0.9]), wanted, atol=12)
    free = drawn(RandomCrop(scale=(0.05, 1.0), sampling="inception"), 1000, 1000, 20_000)
    even = drawn(RandomCrop(scale=(0.05, 1.0)), 1000, 1000, 20_000)
    assert np.median(areas(free)) < 0.75 * np.median(areas(even))
    assert np.allclose(np.quantile(aspects(free), [0.01, 0.99]), [3 / 4, 4 / 3], atol=0.02)


def inception_by_hand(height: int, width: int, crop: RandomCrop, numbers: np.ndarray) -> tuple[int, int] | None:
    """Rows and columns of one try, step by step as TensorFlow's kernel goes about it."""
    least, most = crop.scale[0] * height * width, crop.scale[1] * height * width
    aspect = crop.ratio[0] + numbers[0] * (crop.ratio[1] - crop.ratio[0])
    low, high = round(math.sqrt(least / aspect)), round(math.sqrt(most / aspect))
    while round(high * aspect) > width:
        high -= 1
    high = min(high, height)
    low = min(low, high)
    rows = low + int(numbers[1] * (high - low + 1))
    rows += rows * round(rows * aspect) < least
    rows -= rows * round(rows * aspect) > most
    cols = round(rows * aspect)
    fits = least <= rows * cols <= most and 0 < rows <= height and 0 < cols <= width
    return (rows, cols) if fits else None


def test_inception_sampling_agrees_with_its_steps_by_hand() -> None:
    from patchwords.ops import draws

    random = np.random.default_rng(1)
    sizes = random.integers(3, 60, (300, 2))
    crop = RandomCrop(scale=(0.05, 1.0), sampling="inception")
    found = boxes(crop, sizes, IMAGENET, seed=7, views=np.arange(300), indices=np.arange(300) + 5)
    numbers = draws.uniform("crop", 7, np.arange(300), np.arange(300) + 5, count=40).reshape(300, 10, 4)
    for (height, width), tries, box in zip(sizes.tolist(), numbers, found, strict=True):
        sides = next(filter(None, (inception_by_hand(height, width, crop, each) for each in tries)), (height, width))
        assert (box[2] - box[0], box[3] - box[1]) == sides


def test_a_picture_too_long_for_any_try_gives_the_centre_or_everything() -> None:
    assert drawn(RandomCrop(scale=(0.5, 1.0)), 30, 300, 1).tolist() == [[0, 130, 30, 170]]  # 4:3 in the middle
    assert drawn(RandomCrop(scale=(0.5, 1.0)), 300, 30, 1).tolist() == [[130, 0, 170, 30]]
    assert drawn(RandomCrop(scale=(0.5, 1.0), sampling="inception"), 30, 300, 1).tolist() == [[0, 0, 30, 300]]


def test_padded_boxes_are_shifted_by_whole_pixels_of_the_result() -> None:
    small = Preprocess(size=(32, 32))
    shifts = drawn(PaddedCrop(pixels=4), 32, 32, 4000, small)
    assert set(shifts[:, 0]) == set(shifts[:, 1]) == set(range(-4, 5))
    assert (shifts[:, 2:] - shifts[:, :2] == 32).all()
    counts = np.unique(shifts[:, 0], return_counts=True)[1]
    assert counts.min() > 0.8 * 4000 / 9
    larger = drawn(PaddedCrop(pixels=4), 64, 96, 4000, small)
    assert np.allclose(larger / [2, 3, 2, 3], shifts)


@pytest.mark.parametrize("crop", CROPS, ids=str)
def test_a_box_depends_on_its_address_and_size_alone(crop: CropKind) -> None:
    sizes = np.random.default_rng(0).integers(20, 300, (64, 2))
    views, indices = np.arange(64) % 3, np.arange(64) * 17
    together = boxes(crop, sizes, IMAGENET, seed=3, views=views, indices=indices)
    order = np.random.default_rng(1).permutation(64)
    mixed = boxes(crop, sizes[order], IMAGENET, seed=3, views=views[order], indices=indices[order])
    assert (mixed == together[order]).all()
    for i in (0, 13):
        alone = boxes(crop, sizes[i : i + 1], IMAGENET, seed=3, views=int(views[i]), indices=int(indices[i]))
        assert (alone == together[i]).all()
    if not isinstance(crop, WholeCrop):
        for other in ({"seed": 4}, {"views": views + 1}, {"indices": indices + 1}):
            address = {"seed": 3, "views": views, "indices": indices} | other
            assert (boxes(crop, sizes, IMAGENET, **address) != together).any(axis=1).mean() > 0.8  # type: ignore[arg-type]


def test_the_settings_are_read_and_refused_by_kind() -> None:
    for crop in CROPS:
        assert read(write(crop), type(crop)) == crop
    for wrong in ({"scale": (0.0, 1.0)}, {"scale": (0.5, 0.1)}, {"scale": (0.5,)}, {"ratio": (2.0, 1.0)}):
        with pytest.raises(UsageError, match=next(iter(wrong))):
            RandomCrop(**wrong)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="inception"):
        RandomCrop(sampling="inceptoin")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="pixels"):
        PaddedCrop(pixels=-1)


# Evaluation


def resized_then_cropped(pixels: np.ndarray, size: tuple[int, int], filter: Image.Resampling) -> np.ndarray:
    """The short side to size / 0.875, then the centre, in two steps as everybody writes it."""
    image = Image.fromarray(pixels)
    height, width = (math.floor(side / 0.875) for side in size)
    if image.height * width <= image.width * height:
        width = image.width * height // image.height
    else:
        height = image.height * width // image.width
    top, left = round((height - size[0]) / 2), round((width - size[1]) / 2)
    return np.asarray(image.resize((width, height), filter).crop((left, top, left + size[1], top + size[0])))


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic", "lanczos"])
@pytest.mark.parametrize("size", [(224, 224), (96, 160), (160, 96)])
@pytest.mark.parametrize(("height", "width"), [(300, 224), (224, 333), (241, 500), (50, 50), (701, 97)])
def test_the_centre_is_that_of_resizing_first_and_cropping_then(
    interpolation: str, size: tuple[int, int], height: int, width: int
) -> None:
    preprocess = Preprocess(size=size, fit="crop", crop=0.875, interpolation=interpolation)  # type: ignore[arg-type]
    # Pillow rounds and clips between its two passes, and which comes first depends on the sizes.
    pixels = noise(height, width) if interpolation == "bilinear" else smooth(height, width)
    found = prepare(pixels, preprocess, 3).transpose(1, 2, 0).astype(int)
    wanted = resized_then_cropped(pixels, size, Image.Resampling[interpolation.upper()])
    assert np.abs(found - wanted).max() <= (1 if interpolation == "bilinear" else 2)


def test_squashing_is_pillows_resize_to_the_bit() -> None:
    pixels = noise(90, 120)
    found = prepare(pixels, Preprocess(size=(64, 48)), 3).transpose(1, 2, 0)
    assert (found == np.asarray(Image.fromarray(pixels).resize((48, 64), Image.Resampling.BILINEAR))).all()


def test_evaluation_decodes_in_full_and_heeds_the_orientation() -> None:
    upright, turned = jpeg(smooth(600, 900)), jpeg(smooth(600, 900), turn=6)
    full = np.asarray(Image.open(io.BytesIO(upright)).resize((32, 32), Image.Resampling.BILINEAR))
    small = Preprocess(size=(32, 32))
    assert (prepare(upright, small, 3).transpose(1, 2, 0) == full).all()
    assert np.abs(prepare(turned, small, 3).astype(int) - prepare(upright, small, 3)).max() <= 3
    stored = prepare(turned, Preprocess(size=(32, 32), orientation="stored"), 3)
    assert np.abs(stored.transpose(1, 2, 0).astype(int) - np.rot90(full)).max() <= 3


@pytest.mark.parametrize("channels", [1, 2, 3, 4, 7])
def test_any_number_of_channels_goes_through_every_path(channels: int) -> None:
    pixels = np.tile(smooth(60, 80)[:, :, :1], (1, 1, channels)) + np.arange(channels, dtype=np.uint8)
    found = prepare(pixels, Preprocess(size=(60, 80)), channels)
    assert (found.transpose(1, 2, 0) == pixels).all()
    piece = cut(pixels, np.array([10.0, 20.0, 30.0, 50.0]), (20, 30), "bilinear", channels)
    assert (piece.transpose(1, 2, 0) == pixels[10:30, 20:50]).all()


# Training


def test_a_box_of_whole_pixels_at_its_own_size_is_the_pixels_themselves() -> None:
    pixels = noise(50, 70)
    found = cut(pixels, np.array([10.0, 5.0, 42.0, 69.0]), (32, 64), "bicubic", 3)
    assert found.shape == (3, 32, 64)
    assert found.flags.c_contiguous
    assert (found.transpose(1, 2, 0) == pixels[10:42, 5:69]).all()


def test_outside_of_the_picture_it_is_black_as_if_it_had_been_padded() -> None:
    pixels = noise(32, 32)
    padded = np.pad(pixels, ((4, 4), (4, 4), (0, 0)))
    for top, left in ((-4, -4), (0, 3), (4, -1), (2, 4)):
        found = cut(pixels, np.array([top, left, top + 32, left + 32], dtype=float), (32, 32), "bilinear", 3)
        assert (found.transpose(1, 2, 0) == padded[top + 4 : top + 36, left + 4 : left + 36]).all()


@pytest.mark.parametrize("turn", range(1, 9))
def test_a_jpeg_decoded_smaller_is_cut_at_the_same_place(turn: int) -> None:
    pixels = smooth(1203, 1607)
    box = np.array([101.0, 207.0, 1103.0, 1507.0])
    found = cut(jpeg(pixels, turn), box, (48, 64), "bilinear", 3).astype(int)
    exact = cut(pixels, box, (48, 64), "bilinear", 3)
    assert np.abs(found - exact).max() <= 4


def test_a_large_jpeg_is_cut_in_much_less_time_than_it_is_decoded() -> None:
    raw, box = jpeg(smooth(1600, 2400)), np.array([0.0, 0.0, 1600.0, 2400.0])

    def seconds(work: object) -> float:
        started = time.perf_counter()
        work()  # type: ignore[operator]
        return time.perf_counter() - started

    reduced = min(seconds(lambda: cut(raw, box, (96, 96), "bilinear", 3)) for _ in range(3))
    full = min(seconds(lambda: prepare(raw, Preprocess(size=(96, 96)), 3)) for _ in range(3))
    assert reduced < 0.8 * full


# On the device


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic", "lanczos"])
def test_cutting_from_a_stack_agrees_with_pillow(interpolation: str) -> None:
    pixels = [smooth(100, 120), np.roll(smooth(100, 120), 31, axis=1)[::-1], noise(100, 120)]
    stack = torch.stack([torch.from_numpy(each.copy()).permute(2, 0, 1) for each in pixels])
    for box in ([0, 0, 100, 120], [10, 20, 90, 100], [13.3, 5.2, 61.7, 119.9], [40, 40, 60, 70]):
        wanted = [cut(each, np.array(box, float), (48, 40), interpolation, 3) for each in pixels]  # type: ignore[arg-type]
        shares = np.tile(np.array(box) / [100, 120, 100, 120], (3, 1))
        found = cut_stack(stack, shares, (48, 40), interpolation).numpy()  # type: ignore[arg-type]
        assert found.dtype == np.uint8
        off = np.abs(found.astype(int) - np.stack(wanted))
        assert off[:2].max() <= 1
        assert off[2].max() <= (1 if interpolation == "bilinear" else 40)  # Pillow clips between its two passes
        assert off.mean() < 0.6


def test_cutting_from_a_stack_is_black_outside() -> None:
    pixels = noise(32, 32)
    stack = torch.from_numpy(pixels).permute(2, 0, 1)[None]
    for top, left in ((-4, -3), (4, 2), (0, 0)):
        box = np.array([top, left, top + 32, left + 32], dtype=float)
        found = cut_stack(stack, box[None] / 32, (32, 32))[0].numpy()
        assert (found == cut(pixels, box, (32, 32), "bilinear", 3)).all()


def test_each_picture_of_a_stack_has_its_own_box() -> None:
    stack = torch.randint(0, 256, (5, 1, 40, 30), dtype=torch.uint8)
    shares = drawn(RandomCrop(), 40, 30, 5) / [40, 30, 40, 30]
    together = cut_stack(stack, shares, (16, 16))
    for i in range(5):
        assert torch.equal(cut_stack(stack[i : i + 1], shares[i : i + 1], (16, 16))[0], together[i])


# Numbers for the model


def test_normalising_is_mean_and_deviation_of_shares_of_white() -> None:
    images = torch.randint(0, 256, (2, 3, 4, 5), dtype=torch.uint8)
    found = normalise(images, IMAGENET)
    assert found.dtype == torch.float32
    for channel in range(3):
        wanted = (images[:, channel].double() / 255 - IMAGENET.mean[channel]) / IMAGENET.deviation[channel]
        assert torch.allclose(found[:, channel].double(), wanted, atol=1e-6)
    assert torch.equal(standardise(images.float() / 255, IMAGENET), found)
    halves = normalise(
        torch.tensor([0, 255], dtype=torch.uint8).reshape(1, 1, 1, 2), Preprocess(mean=(0.5,), deviation=(0.5,))
    )
    assert halves.flatten().tolist() == [-1.0, 1.0]


def test_a_mean_for_another_number_of_channels_is_refused() -> None:
    with pytest.raises(UsageError, match="mean has 3 numbers, and the pictures 4 channels"):
        normalise(torch.zeros(1, 4, 2, 2, dtype=torch.uint8), IMAGENET)


def test_whole_boxes_are_centred() -> None:
    found = whole_box(IMAGENET, np.array([[256, 256], [256, 512], [512, 256], [100, 50]]))
    assert found[:3].tolist() == [[16, 16, 240, 240], [16, 144, 240, 368], [144, 16, 368, 240]]
    assert np.allclose(found[3], [50 - 21.875, 25 - 21.875, 50 + 21.875, 25 + 21.875])


def test_a_compiler_takes_the_numbers_of_a_preprocess_as_they_are() -> None:
    images = torch.rand(2, 3, 4, 5, requires_grad=True)
    with torch.inference_mode():
        standardise(images, IMAGENET)  # whoever asks first, a backward pass may come to them later
    compiled = torch.compile(lambda x: standardise(x, IMAGENET), backend="eager")
    found = compiled(images)
    found.sum().backward()
    assert torch.equal(found, standardise(images, IMAGENET))
    assert images.grad is not None


def test_shifted_pictures_move_by_whole_pixels_and_leave_black_behind() -> None:
    stack = torch.randint(1, 256, (4, 2, 5, 6), dtype=torch.uint8)
    starts = np.array([[0.0, 0.0], [2.0, -1.0], [-2.0, 2.0], [1.0, 0.0]])
    found = shifted(stack, starts, 2)
    for picture, seen, (top, left) in zip(stack, found, starts.astype(int).tolist(), strict=True):
        for row, col in np.ndindex(5, 6):
            inside = 0 <= row + top < 5 and 0 <= col + left < 6
            wanted = picture[:, row + top, col + left] if inside else torch.zeros(2, dtype=torch.uint8)
            assert torch.equal(seen[:, row, col], wanted)
