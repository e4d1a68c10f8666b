"""preprocessor_config.json: there and back to the same pixels, and as libraries before us wrote it."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from patchwords.data.preprocess import IMAGENET, Preprocess
from patchwords.data.transforms import prepare
from patchwords.errors import ModelError
from patchwords.weights import processor

MEAN = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3}
SIZES = ((40, 60), (60, 40), (97, 31), (224, 224), (500, 333))


def alike(one: Preprocess, other: Preprocess) -> bool:
    draw = np.random.default_rng(0)
    pictures = [draw.integers(0, 256, (*size, 3), dtype=np.uint8) for size in SIZES]
    return all(np.array_equal(prepare(each, one, 3), prepare(each, other, 3)) for each in pictures)


@pytest.mark.parametrize("fit", ["squash", "crop", "centre"])
@pytest.mark.parametrize("share", [1.0, 0.95, 0.9, 0.875, 224 / 232, 0.8, 0.61])
def test_there_and_back_to_the_same_pixels(fit: Any, share: float) -> None:
    for size in ((32, 32), (224, 224), *([(32, 24), (48, 80)] if fit != "crop" else [])):
        value = replace(IMAGENET, fit=fit, crop=share, size=size, interpolation="bicubic")
        read = processor.read({"preprocessor_config.json": processor.write(value)}, size)
        assert read is not None
        assert (read.fit, read.interpolation, read.mean, read.deviation) == (
            fit,
            "bicubic",
            value.mean,
            value.deviation,
        )
        assert alike(value, read)


def test_the_short_side_is_resized_to_what_evaluation_resizes_it_to() -> None:
    """Rounded down: 224 / 0.9 is 248.9, and 249 would be another picture."""
    table = processor.write(replace(IMAGENET, crop=0.9))
    assert (table["size"], table["crop_size"]) == ({"shortest_edge": 248}, {"height": 224, "width": 224})


@pytest.mark.parametrize(
    ("table", "fit", "crop"),
    [
        ({"size": 224}, "squash", 0.875),
        ({"size": {"height": 224, "width": 224}}, "squash", 0.875),
        ({"size": {"shortest_edge": 256}, "crop_size": {"height": 224, "width": 224}}, "crop", 224 / 256),
        ({"size": {"shortest_edge": 256}, "crop_size": 224}, "crop", 224 / 256),
        ({"size": {"shortest_edge": 224}, "do_center_crop": False}, "crop", 1.0),
        ({"size": 256, "crop_size": 224, "do_center_crop": True}, "centre", 224 / 256),  # the first DeiT's
        ({"size": {"height": 256, "width": 256}, "crop_size": 224, "do_center_crop": True}, "centre", 224 / 256),
    ],
)
def test_what_others_wrote_is_read_as_they_meant_it(table: dict[str, Any], fit: str, crop: float) -> None:
    read = processor.read({"preprocessor_config.json": table | MEAN}, (224, 224))
    assert read is not None
    assert (read.fit, read.size) == (fit, (224, 224))
    assert read.crop == pytest.approx(crop)


def test_a_middle_of_another_shape_than_what_it_is_cut_from_is_not_understood() -> None:
    table = {"size": {"height": 256, "width": 400}, "crop_size": 224, "do_center_crop": True} | MEAN
    with pytest.raises(ValueError, match="of different shapes"):
        processor.read({"preprocessor_config.json": table}, (224, 224))


def test_an_oblong_middle_is_refused() -> None:
    with pytest.raises(ModelError, match="cannot cut the middle of 32x24"):
        processor.write(Preprocess(size=(32, 24), fit="crop"))
