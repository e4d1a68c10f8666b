"""Oxford Flowers-102 as published."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.io import savemat

from patchwords.data.sources.door import open_data
from patchwords.data.sources.flowers102 import CLASSES
from patchwords.errors import DataError

LABELS = np.array([[1, 1, 77, 77, 102, 102, 1, 77, 102]], dtype=np.uint8)
PARTS = {"trnid": [[1, 3, 5]], "valid": [[2, 4, 6]], "tstid": [[7, 8, 9]]}


def flowers(folder: Path, labels: Any = LABELS, **parts: Any) -> Path:
    folder = folder / "flowers"
    (folder / "jpg").mkdir(parents=True)
    for number in range(1, 10):
        (folder / "jpg" / f"image_{number:05}.jpg").write_bytes(b"%d" % number)
    savemat(folder / "imagelabels.mat", {"labels": labels})
    savemat(folder / "setid.mat", {key: np.array(value) for key, value in (PARTS | parts).items()})
    return folder


def test_the_published_parts_come_out(tmp_path: Path) -> None:
    data = open_data(flowers(tmp_path))
    assert [len(source) for source in data.splits.values()] == [3, 3, 3]
    assert [data.classes[label] for label in data.train.labels] == [
        "pink primrose",
        "passion flower",
        "blackberry lily",
    ]
    assert [data.val.picture(index) for index in range(3)] == [b"2", b"4", b"6"]
    assert [data.test.picture(index) for index in range(3)] == [b"7", b"8", b"9"]
    assert any("published ones" in note for note in data.notes)
    assert data.notes[-2:] == (
        "the data brings its own validation pictures; data.validation.share is not used",
        "the test pictures decide nothing: they are scored once, at the end",
    )


def test_there_are_102_flowers() -> None:
    assert len(set(CLASSES)) == 102
    assert all(name == name.strip() and "  " not in name for name in CLASSES)
    assert (CLASSES[53], CLASSES[73], CLASSES[76]) == ("sunflower", "rose", "passion flower")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"labels": LABELS + 1}, "has labels 2 to 103, not 1 to 102"),
        ({"labels": LABELS * 0.5}, "holds no rows of whole numbers called labels"),
        ({"labels": LABELS[:, :0]}, "holds no rows of whole numbers"),
        ({"trnid": [[0, 1]]}, "has pictures 0 to 1, not 1 to 9"),
        ({"tstid": [[10]]}, "has pictures 10 to 10, not 1 to 9"),
        ({"tstid": []}, "holds no rows of whole numbers called trnid, valid, tstid"),
    ],
)
def test_wrong_files_are_refused(tmp_path: Path, changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        open_data(flowers(tmp_path, **changes))


def test_missing_pictures_are_named(tmp_path: Path) -> None:
    folder = flowers(tmp_path)
    (folder / "jpg" / "image_00004.jpg").unlink()
    with pytest.raises(DataError, match=r"lacks 1 of its pictures, as image_00004.jpg"):
        open_data(folder)


@pytest.mark.parametrize("content", [b"", b"MATLAB 5.0", bytes(300), b"x" * 300])
def test_damaged_files_are_refused(tmp_path: Path, content: bytes) -> None:
    folder = flowers(tmp_path)
    (folder / "setid.mat").write_bytes(content)
    with pytest.raises(DataError, match=r"setid.mat is damaged"):
        open_data(folder)
