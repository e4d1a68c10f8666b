"""Pictures that nobody told apart can be learned from, and only without labels."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from patchwords.data.sources.door import open_data, open_pictures
from patchwords.data.sources.split import Split
from patchwords.errors import DataError


def draw(path: Path, count: int) -> None:
    path.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        Image.fromarray(np.full((6, 6, 3), 10 * number, dtype=np.uint8)).save(path / f"{number}.png")


def names(source: object) -> set[str]:
    return {source.name(index) for index in range(len(source))}  # type: ignore[attr-defined, arg-type]


def test_a_flat_folder_is_one_class_of_which_a_share_is_held_out(tmp_path: Path) -> None:
    draw(tmp_path / "photos", 10)
    data = open_pictures(tmp_path / "photos", split=Split(share=0.2))
    assert (len(data.train), len(data.val), data.classes) == (8, 2, ("photos",))
    assert "2 of 10 pictures are held out for validation (20 %, rounded down, seed 0)" in data.notes
    assert names(data.train) | names(data.val) == {f"{number}.png" for number in range(10)}
    with pytest.raises(DataError, match="no class folders"):
        open_data(tmp_path / "photos")


def test_nothing_is_held_out_of_pictures_to_look_at(tmp_path: Path) -> None:
    draw(tmp_path / "photos", 3)
    data = open_pictures(tmp_path / "photos", split=None)
    assert (len(data.train), len(data.val), data.classes) == (3, 3, ("photos",))


def test_pictures_of_one_folder_however_deep_are_all_there(tmp_path: Path) -> None:
    draw(tmp_path / "photos/2024/summer", 3)
    draw(tmp_path / "photos/2024", 2)
    (tmp_path / "photos/notes.txt").write_text("no picture")
    data = open_pictures(tmp_path / "photos", split=Split(share=0.4))
    assert len(data.train) + len(data.val) == 5
    assert any("notes.txt" in note for note in data.notes)


def test_parts_without_classes_stay_apart(tmp_path: Path) -> None:
    draw(tmp_path / "photos/train", 4)
    draw(tmp_path / "photos/val", 2)
    data = open_pictures(tmp_path / "photos", split=Split())
    assert names(data.train) == {f"train/{number}.png" for number in range(4)}
    assert names(data.val) == {"val/0.png", "val/1.png"}


def test_class_folders_keep_their_labels(tmp_path: Path) -> None:
    draw(tmp_path / "photos/roses", 5)
    draw(tmp_path / "photos/tulips", 5)
    assert open_pictures(tmp_path / "photos", split=Split()).classes == ("roses", "tulips")


def test_too_few_to_hold_one_out_are_refused_without_a_word_of_classes(tmp_path: Path) -> None:
    draw(tmp_path / "photos", 4)
    with pytest.raises(
        DataError, match=r": 20 %, rounded down, is none, since there are 4; add pictures \(at least 5\)"
    ):
        open_pictures(tmp_path / "photos", split=Split(share=0.2))


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    with pytest.raises(DataError, match="no pictures"):
        open_pictures(tmp_path / "photos", split=Split())
