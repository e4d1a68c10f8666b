"""ReaL accuracy: any class that a picture shows is right, and a picture that shows none does not count."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from patchwords.data.sources.source import Pixels, Source
from patchwords.errors import DataError
from patchwords.evaluation.real import Real, real_accuracy, real_file, real_sets

WNIDS = [f"n{number:08}" for number in range(1_440_764, 1_441_764)]
ANSWERS = [[1], [], [0, 999], [1, 2]]


class Named(Source):
    """Pictures of which nothing but the name is asked."""

    def __init__(self, *numbers: int):
        self.names = [f"val/n01440764/ILSVRC2012_val_{number:08}.JPEG" for number in numbers]
        self.labels = np.zeros(len(numbers), dtype=np.int64)

    def picture(self, index: int) -> bytes | Pixels:
        raise AssertionError("the names are enough")

    def name(self, index: int) -> str:
        return self.names[index]

    def size(self, index: int) -> int:
        raise AssertionError("the names are enough")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "real.json"
    path.write_text(json.dumps(ANSWERS))
    return path


def test_any_class_of_the_picture_is_right_and_empty_sets_do_not_count() -> None:
    found = real_accuracy(np.array([1, 0, 999, 0]), [(1,), (), (0, 999), (1, 2)])
    assert found == Real(accuracy=2 / 3, count=3, left_out=1)


def test_with_one_class_a_picture_it_is_the_accuracy() -> None:
    labels, predicted = np.random.default_rng(0).integers(0, 3, (2, 100))
    found = real_accuracy(predicted, [(int(label),) for label in labels])
    assert found == Real(accuracy=float((labels == predicted).mean()), count=100, left_out=0)


def test_sets_are_found_by_the_names_of_the_pictures(file: Path) -> None:
    assert real_sets(file, Named(3, 1, 2), WNIDS) == [(0, 999), (1,), ()]


def test_its_numbers_count_the_wnids_in_sorted_order(file: Path) -> None:
    assert real_sets(file, Named(3, 1), WNIDS[::-1]) == [(999, 0), (998,)]
    assert real_sets(file, Named(3, 1), [*WNIDS[10:], *WNIDS[:10]]) == [(990, 989), (991,)]


def test_classes_that_are_called_by_their_numbers_are_taken_by_them(file: Path) -> None:
    assert real_sets(file, Named(3, 4), sorted(map(str, range(1000)))) == [(0, 999), (1, 112)]  # 0, 1, 10, 100, 101 …


@pytest.mark.parametrize(
    ("classes", "sentence"),
    [
        (WNIDS[:10], "is for the 1000 classes of ImageNet, and here are 10"),
        (["tench", *WNIDS[1:]], "counts the classes of ImageNet by their wnids, and here is 'tench'"),
    ],
)
def test_other_classes_are_refused(file: Path, classes: Sequence[str], sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        real_sets(file, Named(1), classes)


def test_other_pictures_and_damaged_files_are_refused(file: Path) -> None:
    with pytest.raises(DataError, match="is none of the 4 pictures"):
        real_sets(file, Named(5), WNIDS)
    file.write_text("[[1000]]")
    with pytest.raises(DataError, match="holds 1000, which is no class from 0 to 999"):
        real_sets(file, Named(1), WNIDS)
    file.write_text("{")
    with pytest.raises(DataError, match="damaged"):
        real_sets(file, Named(1), WNIDS)


def test_where_no_picture_has_a_label_there_is_no_accuracy() -> None:
    with pytest.raises(DataError, match="none of the 2 pictures has a ReaL label"):
        real_accuracy(np.array([0, 1]), [(), ()])
    with pytest.raises(DataError, match="do not belong together"):
        real_accuracy(np.array([0, 1]), [(0,)])


def test_the_file_is_found_beside_the_pictures(file: Path, tmp_path: Path) -> None:
    assert real_file(tmp_path) == file
    (tmp_path / "val").mkdir()
    file.rename(tmp_path / "val" / "real.json")
    assert real_file(tmp_path) == tmp_path / "val" / "real.json"
    assert real_file(tmp_path / "val" / "nowhere") is None
