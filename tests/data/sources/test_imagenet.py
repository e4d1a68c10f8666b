"""ImageNet's folders, and its better labels."""

import json
from pathlib import Path

import pytest

from patchwords.data.sources.door import open_data
from patchwords.data.sources.imagenet import real_labels
from patchwords.errors import DataError

NAMES = [f"ILSVRC2012_val_{number:08}" for number in range(1, 5)]


@pytest.fixture
def flat(tree, picture: bytes) -> Path:
    """Class folders to learn from, and all pictures for validation in one."""
    folder = tree({"train/n01440764": 3, "train/n01443537": 3, "val": 0})
    for name in NAMES:
        (folder / "val" / f"{name}.JPEG").write_bytes(picture)
    return folder


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("val.txt", "".join(f"{name}.JPEG {label}\n" for name, label in zip(NAMES, "1001", strict=True))),
        (
            "val/val.txt",
            "".join(f"{name}.JPEG n0144{n}\n" for name, n in zip(NAMES, ("3537", "0764", "0764", "3537"), strict=True)),
        ),
        ("imagenet_2012_validation_synset_labels.txt", "n01443537\nn01440764\nn01440764\nn01443537\n"),
        (
            "LOC_val_solution.csv",
            "ImageId,PredictionString\n"
            + "".join(
                f"{name},n0144{n} 1 2 3 4\n" for name, n in zip(NAMES, ("3537", "0764", "0764", "3537"), strict=True)
            ),
        ),
    ],
)
def test_a_text_file_labels_pictures_that_lie_in_one_folder(flat: Path, file: str, text: str) -> None:
    (flat / file).write_text(text)
    data = open_data(flat)
    assert data.classes == ("n01440764", "n01443537")
    assert (len(data.train), data.test) == (6, None)
    assert data.notes[-1] == "the data brings its own validation pictures; data.validation.share is not used"
    found = {data.val.name(index): int(data.val.labels[index]) for index in range(4)}
    assert found == {f"val/{name}.JPEG": label for name, label in zip(NAMES, (1, 0, 0, 1), strict=True)}


def test_without_such_a_file_it_says_which_ones_it_knows(flat: Path) -> None:
    with pytest.raises(DataError, match=r"val/ has no class folders, and there is no val.txt, LOC_val_solution.csv"):
        open_data(flat)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "\n".join(f"{name}.JPEG n99999999" for name in NAMES),
            "has the label 'n99999999', which is no folder in train/",
        ),
        (f"{NAMES[0]}.JPEG 0", "ILSVRC2012_val_00000002.JPEG has the label '', which is no folder"),
        ("490\n361\n171\n822\n", "has numbers of its own for the classes"),
    ],
)
def test_wrong_labels_are_refused(flat: Path, text: str, sentence: str) -> None:
    (flat / "val.txt").write_text(text)
    with pytest.raises(DataError, match=sentence):
        open_data(flat)


def test_class_folders_in_both_are_a_folder_like_any_other(tree) -> None:
    data = open_data(tree({"train/n01440764": 3, "train/n01443537": 3, "val/n01443537": 2}))
    assert (data.val.labels.tolist(), len(data.train), data.test) == ([1, 1], 6, None)
    assert data.notes[-1] == "the data brings its own validation pictures; data.validation.share is not used"


def test_real_labels_are_found_by_the_names_of_the_pictures(flat: Path, tmp_path: Path) -> None:
    (flat / "val.txt").write_text("".join(f"{name}.JPEG {label}\n" for name, label in zip(NAMES, "1001", strict=True)))
    (tmp_path / "real.json").write_text(json.dumps([[1], [], [0, 1], [1]]))
    val = open_data(flat).val
    expected = dict(zip((f"val/{name}.JPEG" for name in NAMES), [(1,), (), (0, 1), (1,)], strict=True))
    found = real_labels(tmp_path / "real.json", val)
    assert {val.name(index): found[index] for index in range(4)} == expected


@pytest.mark.parametrize("answers", ["[[1], [0]]", "[[1", "3", '[["x"]]'])
def test_real_labels_that_do_not_fit_are_refused(flat: Path, tmp_path: Path, answers: str) -> None:
    (flat / "val.txt").write_text("".join(f"{name}.JPEG 1\n" for name in NAMES))
    (tmp_path / "real.json").write_text(answers)
    with pytest.raises(DataError, match=r"none of the 2 pictures|is damaged"):
        real_labels(tmp_path / "real.json", open_data(flat).val)
