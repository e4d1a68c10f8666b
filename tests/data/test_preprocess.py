"""How a picture becomes the model's input: one value, checked when it is made, that survives being written."""

import pytest

from patchwords.data.preprocess import IMAGENET, Preprocess
from patchwords.errors import UsageError
from patchwords.settings import read, write


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"mean": (0.5,)}, "mean has 1 numbers and deviation 3"),
        ({"mean": (), "deviation": ()}, "mean has 0 numbers"),
        ({"deviation": (0.5, 0.0, 0.5)}, "must be above 0"),
        ({"deviation": (0.5, -1.0, 0.5)}, "must be above 0"),
        ({"crop": 0.0}, "crop 0.0 is not a share"),
        ({"crop": 1.01}, "crop 1.01 is not a share"),
        ({"fit": "stretch"}, "'stretch' is not one of squash, crop"),
        ({"interpolation": "bilinar"}, "did you mean bilinear"),
        ({"orientation": "up"}, "not one of upright, stored"),
        ({"size": 224}, "not a pair"),
        ({"size": (224.0, 224)}, "not a pair"),
    ],
)
def test_what_has_no_meaning_is_refused(given: dict, words: str) -> None:
    with pytest.raises(UsageError, match=words.replace("(", r"\(")):
        Preprocess(**given)


@pytest.mark.parametrize("size", [(0, 224), (224, -1)])
def test_a_picture_without_pixels_is_refused(size: tuple[int, int]) -> None:
    with pytest.raises(UsageError, match="size"):
        Preprocess(size=size)


@pytest.mark.parametrize(
    "preprocess",
    [Preprocess(), IMAGENET, Preprocess(size=(8, 12), mean=(0.1,), deviation=(0.2,), orientation="stored")],
)
def test_it_survives_writing_and_reading(preprocess: Preprocess) -> None:
    assert read(write(preprocess), Preprocess) == preprocess


def test_the_defaults_are_the_official_models() -> None:
    assert write(Preprocess()) == {
        "size": (224, 224),
        "fit": "squash",
        "crop": 0.875,
        "interpolation": "bilinear",
        "mean": [0.5, 0.5, 0.5],
        "deviation": [0.5, 0.5, 0.5],
        "orientation": "upright",
    }
