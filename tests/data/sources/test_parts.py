"""Data sets undivided: pictures to judge a model by, of which nothing is held out."""

import numpy as np
import pytest

from patchwords.data.sources.arrays import Arrays
from patchwords.data.sources.door import open_data
from patchwords.data.sources.parts import assemble
from patchwords.errors import DataError


def test_without_a_split_every_picture_is_there(tree) -> None:
    data = open_data(tree({"cats": 3, "dogs": 2}), split=None)
    assert data.val is data.train
    assert len(data.val) == 5


def test_too_few_to_hold_any_out_are_enough_to_judge_by(tree) -> None:
    folder = tree({"cats": 1, "dogs": 1})
    with pytest.raises(DataError, match="held out"):
        open_data(folder)
    assert len(open_data(folder, split=None).val) == 2


def test_one_class_is_enough_to_judge_by(tree) -> None:
    assert open_data(tree({"cats": 3}), split=None).classes == ("cats",)


def test_parts_of_its_own_stay_apart(tree) -> None:
    data = open_data(tree({"train/a": 4, "train/b": 4, "val/a": 2, "val/b": 2, "test/a": 1}), split=None)
    assert [len(source) for source in data.splits.values()] == [8, 4, 1]


def test_a_test_part_without_a_validation_part_is_told_from_train(tree) -> None:
    data = open_data(tree({"train/a": 4, "train/b": 4, "test/a": 1, "test/b": 1}), split=None)
    assert data.val is data.train
    assert data.test is not None
    assert len(data.test) == 2


def test_validation_and_test_alone_are_not_taken_for_what_is_learned() -> None:
    val, test = (Arrays(np.zeros((2, 4, 4), dtype=np.uint8), np.arange(2), name) for name in ("val", "test"))
    data = assemble("some", ["a", "b"], {"val": val, "test": test}, None)
    assert (data.train, data.val, data.test) == (test, val, test)
