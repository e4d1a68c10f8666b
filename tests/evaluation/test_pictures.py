"""Which parts a data set has, what is fair to judge by, and what features learn from."""

import numpy as np
import pytest

from patchwords.data.sources.arrays import Arrays
from patchwords.data.sources.parts import Part, assemble
from patchwords.errors import DataError, UsageError
from patchwords.evaluation.pictures import Pictures


def pictures(*parts: Part) -> Pictures:
    sources = {part: Arrays(np.zeros((10, 4, 4), dtype=np.uint8), np.arange(10) % 2, part) for part in parts}
    return Pictures(data=assemble("some", ["a", "b"], sources, None), given="some", learned=False)


@pytest.mark.parametrize(
    ("parts", "known", "fair"),
    [
        (("train",), [], "all"),
        (("val",), [], "all"),
        (("test",), ["test"], "test"),
        (("train", "val"), ["train", "val"], "val"),
        (("train", "test"), ["train", "test"], "test"),
        (("val", "test"), ["val", "test"], "test"),
        (("test", "val"), ["val", "test"], "test"),
        (("train", "val", "test"), ["train", "val", "test"], "test"),
    ],
)
def test_parts_keep_their_names_and_the_test_comes_first(parts: tuple[Part, ...], known: list[str], fair: Part) -> None:
    found = pictures(*parts)
    assert list(found.parts) == known
    assert found.chosen("auto")[0] == fair
    assert len(found.chosen("all")[1]) == 10 * len(parts)
    assert all(source.name(0).startswith(part) for part, source in found.parts.items())


def test_features_learn_from_train_alone() -> None:
    lesson = pictures("train", "val", "test").lesson("val")
    assert (lesson.part, lesson.train.name(0), lesson.test.name(0)) == ("val", "train/0", "val/0")
    with pytest.raises(UsageError, match="--split all does not apply"):
        pictures("train", "test").lesson("all")
    for parts in (("val", "test"), ("test",)):
        with pytest.raises(DataError, match="nothing to learn from but its test part: add one called train"):
            pictures(*parts).lesson("auto")


def test_pictures_without_parts_are_divided_and_none_is_in_both() -> None:
    lesson = pictures("train").lesson("auto")
    learned, judged = ({source.name(i) for i in range(len(source))} for source in (lesson.train, lesson.test))
    assert (len(learned), len(judged), learned & judged) == (8, 2, set())
