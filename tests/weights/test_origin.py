"""A run's own division of its data is found again by the names of the pictures, whoever divided it."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from patchwords.data.sources.arrays import Arrays
from patchwords.data.sources.source import Data, Joined, Source, Subset
from patchwords.errors import ModelError
from patchwords.weights.origin import Origin


def squares(name: str, count: int) -> Arrays:
    return Arrays(np.zeros((count, 2, 2, 1), dtype=np.uint8), np.arange(count, dtype=np.int64) % 2, name)


TRAIN, VAL, TEST = squares("train", 8), squares("val", 4), squares("test", 4)
WHOLE = Data(name="squares", classes=("dark", "light"), train=TRAIN, val=TRAIN)
PARTED = replace(WHOLE, val=VAL, test=TEST)


def names(source: Source) -> list[str]:
    return [source.name(index) for index in range(len(source))]


@pytest.fixture
def origin(tmp_path: Path) -> Callable[[Data], Origin]:
    """The origin in a run that was given this data."""

    def write(data: Data) -> Origin:
        told = {part: names(source) for part, source in data.splits.items()}
        table = {"name": data.name, "names": told, "notes": ["a note"], "digest": data.digest()}
        (tmp_path / "data.json").write_text(json.dumps(table))
        (tmp_path / "classes.json").write_text(json.dumps(data.classes))
        return Origin(tmp_path, "/squares", "")

    return write


@pytest.mark.parametrize(
    ("given", "whole"),
    [
        (replace(WHOLE, train=Subset(TRAIN, [5, 0, 1, 7]), val=Subset(TRAIN, [2, 3, 4, 6])), WHOLE),  # by a recipe
        (replace(PARTED, train=Joined([TRAIN, VAL]), val=TEST, test=None), PARTED),  # by a protocol
        (PARTED, PARTED),
    ],
)
def test_data_is_divided_as_the_run_had_it(given: Data, whole: Data, origin: Callable[[Data], Origin]) -> None:
    found = origin(given).divided(whole)
    assert found is not None
    assert {part: names(source) for part, source in found.splits.items()} == {
        part: names(source) for part, source in given.splits.items()
    }
    assert found.val.labels.tolist() == given.val.labels.tolist()
    assert found.notes == ("a note",)


@pytest.mark.parametrize(
    "other",
    [
        replace(WHOLE, train=Subset(TRAIN, range(7))),
        replace(WHOLE, train=Arrays(TRAIN.images, 1 - TRAIN.labels, "train")),
        replace(WHOLE, train=Arrays(np.zeros((8, 3, 2, 1), dtype=np.uint8), TRAIN.labels, "train")),
        replace(WHOLE, classes=("dark", "bright")),
    ],
    ids=["a picture less", "another label", "another size", "another class"],
)
def test_other_data_is_not_taken_for_it(other: Data, origin: Callable[[Data], Origin]) -> None:
    given = replace(WHOLE, train=Subset(TRAIN, [5, 0, 1, 6, 7]), val=Subset(TRAIN, [2, 3, 4]))
    assert origin(given).divided(replace(other, val=other.train)) is None


def test_pictures_beyond_those_of_the_run_are_other_data_unless_a_protocol_left_them_out(
    origin: Callable[[Data], Origin],
) -> None:
    given = replace(WHOLE, train=Subset(TRAIN, [0, 1]), val=Subset(TRAIN, [2, 3]))
    run = origin(given)
    assert run.divided(WHOLE) is None
    assert replace(run, protocol=True).divided(WHOLE) is not None


def test_some_of_the_classes_are_found_again_where_a_study_left_out_the_others(
    origin: Callable[[Data], Origin],
) -> None:
    def coloured(labels: np.ndarray) -> Data:
        pictures = Arrays(np.zeros((12, 2, 2, 1), dtype=np.uint8), labels, "train")
        return Data(name="colours", classes=("blue", "green", "red"), train=pictures, val=pictures)

    whole = coloured(np.arange(12) % 3)
    learned, judging = (Subset(whole.train, numbers) for numbers in ([5, 1, 2], [4, 8]))
    for source in (learned, judging):
        source.labels = source.labels - 1
    half = replace(whole, name="colours, 2 classes", classes=("green", "red"), train=learned, val=judging)
    run = origin(half)
    assert run.divided(whole) is None
    found = replace(run, protocol=True).divided(whole)
    assert found is not None
    assert (found.name, found.classes, found.notes) == ("colours, 2 classes", ("green", "red"), ("a note",))
    assert (found.train.labels.tolist(), names(found.val)) == ([1, 0, 1], ["train/4", "train/8"])
    assert replace(run, protocol=True).divided(coloured(np.zeros(12, dtype=np.int64))) is None


@pytest.mark.parametrize("text", ["{", "[]", '{"names": {}, "notes": []}'])
def test_a_run_that_was_damaged_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "data.json").write_text(text)
    with pytest.raises(ModelError, match=r"data.json of the run in .* cannot be read"):
        Origin(tmp_path, "/squares", "").divided(WHOLE)
