"""Folders of class folders: what is a class, what is not, and what is said about it."""

import os
import sys
from functools import partial
from pathlib import Path

import pytest

from patchwords.data.sources.door import open_data, open_pictures
from patchwords.data.sources.source import Data, Source
from patchwords.data.sources.split import Split
from patchwords.errors import DataError


def names(source: Source | None) -> list[str]:
    assert source is not None
    return [source.name(index) for index in range(len(source))]


def classes_of(data: Data, part: str) -> dict[str, int]:
    source = data.splits[part]
    return {name: int((source.labels == number).sum()) for number, name in enumerate(data.classes)}


def test_each_folder_is_a_class(tree) -> None:
    data = open_data(tree({"tulips": 10, "roses": 5}))
    assert (data.name, data.classes, data.channels) == ("photos", ("roses", "tulips"), 3)
    assert classes_of(data, "train") == {"roses": 4, "tulips": 8}
    assert classes_of(data, "val") == {"roses": 1, "tulips": 2}
    assert data.test is None
    assert "3 of 15 pictures are held out for validation (20 % of each class, rounded down, seed 0)" in data.notes


def test_names_are_relative_and_pictures_are_the_files(tree, picture: bytes) -> None:
    data = open_data(tree({"a": 5, "b": 5}))
    assert sorted(names(data.train) + names(data.val)) == [
        f"{name}/{number:03}.png" for name in "ab" for number in range(5)
    ]
    assert data.train.picture(0) == picture
    assert data.train.size(0) == len(picture)


def test_a_data_set_that_was_moved_is_the_same(tree, tmp_path: Path) -> None:
    folder = tree({"a": 5, "b": 5})
    before = open_data(folder).digest()
    folder.rename(tmp_path / "elsewhere")
    assert open_data(tmp_path / "elsewhere").digest() == before


def test_pictures_lie_as_deep_as_they_like(tree) -> None:
    data = open_data(tree({"a/2021/may": 3, "a": 3, "b": 6}))
    assert classes_of(data, "train") == {"a": 5, "b": 5}


@pytest.mark.parametrize("suffix", ["jpg", "JPEG", "png", "WebP", "bmp", "gif", "tif", "TIFF"])
def test_every_kind_of_picture_is_taken_whatever_its_letters(tree, suffix: str) -> None:
    folder = tree({"a": 5, "b": 5})
    (folder / "a" / f"more.{suffix}").write_bytes(b"x")
    assert len(open_data(folder).train) + len(open_data(folder).val) == 11


def test_hidden_and_empty_folders_and_stray_files_are_no_classes(tree) -> None:
    folder = tree({"a": 5, "b": 5, ".git": 3, "__MACOSX": 3, "nothing": 0, "deep/er": 0})
    (folder / "LICENSE.txt").write_text("free")
    (folder / ".DS_Store").write_bytes(b"x")
    (folder / "a" / "Thumbs.db").write_bytes(b"x")
    (folder / "a" / "._000.png").write_bytes(b"x")
    (folder / "a" / "readme.md").write_text("x")
    data = open_data(folder)
    assert data.classes == ("a", "b")
    assert classes_of(data, "train") == {"a": 4, "b": 4}
    assert "no classes, since they hold no pictures: deep, nothing" in data.notes
    assert "left out, since they are no pictures: a/readme.md, LICENSE.txt" in data.notes


def test_pictures_of_kinds_that_are_not_read_are_left_out_with_advice(tree) -> None:
    folder = tree({"a": 5, "b": 5})
    (folder / "a" / "IMG_1.HEIC").write_bytes(b"x")
    (folder / "b" / "icon.svg").write_bytes(b"x")
    (folder / "readme.md").write_text("x")
    notes = open_data(folder).notes
    assert "left out, since such files are not read, convert them to JPEG or PNG: a/IMG_1.HEIC, b/icon.svg" in notes
    assert "left out, since they are no pictures: readme.md" in notes


def test_class_folders_with_nothing_but_such_pictures_are_not_called_empty(tree) -> None:
    folder = tree({"a": 0, "b": 0})
    for name in "ab":
        (folder / name / "1.heic").write_bytes(b"x")
    for opens in (open_data, partial(open_pictures, split=None)):
        with pytest.raises(DataError, match=r"of other kinds \(a/1.heic, b/1.heic\): convert them to JPEG or PNG"):
            opens(folder)


def test_pictures_beside_the_class_folders_are_left_out_and_said(tree, picture: bytes) -> None:
    folder = tree({"a": 5, "b": 5})
    (folder / "stray.png").write_bytes(picture)
    data = open_data(folder)
    assert len(data.train) + len(data.val) == 10
    assert "without a class, since they lie beside the class folders: stray.png" in data.notes


def test_classes_are_in_code_point_order(tree) -> None:
    assert open_data(tree({"2": 5, "10": 5, "b": 5, "B": 5})).classes == ("10", "2", "B", "b")


def test_the_order_does_not_depend_on_the_file_system(tree, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tree({"a": 7, "b": 8, "b/deep": 3})
    before, scandir = open_data(folder), os.scandir

    class Backwards:
        def __init__(self, path) -> None:
            with scandir(path) as entries:
                self.entries = sorted(entries, key=lambda entry: entry.name, reverse=True)

        def __enter__(self):
            return iter(self.entries)

        def __exit__(self, *_) -> None: ...

    monkeypatch.setattr(os, "scandir", Backwards)
    after = open_data(folder)
    assert (names(after.train), names(after.val)) == (names(before.train), names(before.val))


def test_parts_are_taken_as_they_are(tree) -> None:
    data = open_data(tree({"train/a": 3, "train/b": 3, "val/a": 1, "val/b": 2, "test/a": 4, "test/b": 4}))
    assert [len(source) for source in data.splits.values()] == [6, 3, 8]
    assert data.train.name(0) == "train/a/000.png"
    assert data.notes == (
        "the data brings its own validation pictures; data.validation.share is not used",
        "the test pictures decide nothing: they are scored once, at the end",
    )


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_a_share_does_not_touch_validation_that_is_there(tree, share: float) -> None:
    data = open_data(tree({"train/a": 10, "train/b": 10, "val/a": 2, "val/b": 2}), split=Split(share=share))
    assert [len(source) for source in data.splits.values()] == [20, 4]
    assert data.notes == ("the data brings its own validation pictures; data.validation.share is not used",)


@pytest.mark.parametrize("word", ["val", "valid", "validation", "Valid"])
def test_validation_has_many_words(tree, word: str) -> None:
    assert len(open_data(tree({"train/a": 3, "train/b": 3, f"{word}/a": 1})).val) == 1


def test_train_and_test_alone_keep_the_test_for_the_test(tree) -> None:
    data = open_data(tree({"train/a": 10, "train/b": 10, "test/a": 4, "test/b": 4}))
    assert [len(source) for source in data.splits.values()] == [16, 4, 8]
    assert data.notes[-1] == "the test pictures decide nothing: they are scored once, at the end"
    assert all(data.val.name(index).startswith("train/") for index in range(4))
    assert all(data.test.name(index).startswith("test/") for index in range(8))
    assert not any("brings its own" in note for note in data.notes)


def test_train_alone_is_split(tree) -> None:
    data = open_data(tree({"train/a": 10, "train/b": 10}))
    assert data.classes == ("a", "b")
    assert [len(source) for source in data.splits.values()] == [16, 4]


def test_a_class_called_train_is_a_class(tree) -> None:
    assert open_data(tree({"train": 5, "bus": 5, "car": 5})).classes == ("bus", "car", "train")


def test_a_class_that_validation_lacks_does_not_shift_the_labels(tree) -> None:
    data = open_data(tree({"train/a": 2, "train/b": 2, "train/c": 2, "val/c": 1, "val/a": 1}))
    assert [data.classes[label] for label in data.val.labels] == ["a", "c"]
    assert "val has no pictures of 1 of the 3 classes (b)" in data.notes


def test_a_class_that_train_lacks_is_refused(tree) -> None:
    with pytest.raises(DataError, match=r"val has classes that train lacks \(c\)"):
        open_data(tree({"train/a": 2, "train/b": 2, "val/c": 1}))


def test_two_folders_for_the_same_part_are_refused(tree) -> None:
    with pytest.raises(DataError, match="both val and valid"):
        open_data(tree({"train/a": 2, "train/b": 2, "val/a": 1, "valid/b": 1}))


def test_folders_beside_the_parts_are_left_out_and_said(tree) -> None:
    data = open_data(tree({"train/a": 2, "train/b": 2, "val/a": 1, "drafts": 4}))
    assert "left out, since they lie beside train, val: drafts" in data.notes


def test_a_part_without_class_folders_is_explained(tree) -> None:
    with pytest.raises(DataError, match=r"train holds 4 pictures but no class folders: make a folder for each class"):
        open_data(tree({"train": 4, "val": 4}))


def test_an_empty_part_is_refused(tree) -> None:
    with pytest.raises(DataError, match="val holds no pictures in class folders"):
        open_data(tree({"train/a": 2, "train/b": 2, "val": 0}))


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds no pictures in class folders: make a folder for each class"):
        open_data(tmp_path)


def test_pictures_without_class_folders_are_explained(tree) -> None:
    with pytest.raises(DataError, match="holds 4 pictures but no class folders: make a folder for each class"):
        open_data(tree({".": 4}))


def test_one_class_is_refused(tree) -> None:
    with pytest.raises(DataError, match=r"one class only \(a\), and one class cannot be told from another"):
        open_data(tree({"a": 10}))


@pytest.mark.parametrize("above", ["flowers", "train/flowers"])
def test_a_folder_one_level_too_high_is_guessed(tree, above: str) -> None:
    with pytest.raises(DataError, match=rf"if its folders \(a, b\) are the classes, give \S+/photos/{above} instead"):
        open_data(tree({f"{above}/a": 5, f"{above}/b": 5}))


def test_a_thousand_classes_with_one_picture_each_are_a_problem_in_the_data(tree) -> None:
    with pytest.raises(DataError, match="no picture can be held out") as caught:
        open_data(tree({f"{number:04}": 1 for number in range(1000)}))
    assert caught.value.exit_code == 3


def test_classes_too_small_for_validation_are_named(tree) -> None:
    assert "too small for that: b" in open_data(tree({"a": 10, "b": 2})).notes[-1]


def test_the_share_is_a_setting(tree) -> None:
    assert len(open_data(tree({"a": 10, "b": 10}), split=Split(share=0.5)).val) == 10


def test_an_unreadable_folder_is_named(tree, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, scandir = tree({"a": 5, "b/secret": 5}), os.scandir

    def refuse(path):
        if Path(path).name == "secret":
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(DataError, match=r"photos/b/secret cannot be read \(Permission denied\)"):
        open_data(folder)


def test_links_in_a_ring_come_to_an_end(tree) -> None:
    folder = tree({"a/deep": 5, "b": 5})
    (folder / "a" / "deep" / "up").symlink_to(folder / "a")
    (folder / "b" / "root").symlink_to(folder)
    (folder / "b" / "self").symlink_to("self")
    data = open_data(folder)
    assert classes_of(data, "train") == {"a": 4, "b": 4}
    assert "left out, since they link to folders that were read already: a/deep/up, b/root" in data.notes


def test_many_links_to_each_other_take_no_time(tree) -> None:
    folder = tree({"b": 5, **{f"a/{number}": 1 for number in range(20)}})
    for one in range(20):
        for other in range(20):
            (folder / "a" / str(one) / f"to{other}").symlink_to(folder / "a" / str(other))
    assert classes_of(open_data(folder), "train") == {"a": 16, "b": 4}


def test_a_linked_class_folder_is_a_class(tree, tmp_path: Path) -> None:
    folder = tree({"a": 5, "../elsewhere/pictures": 5})
    (folder / "b").symlink_to(tmp_path / "elsewhere" / "pictures")
    assert classes_of(open_data(folder), "train") == {"a": 4, "b": 4}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes with names")
def test_a_pipe_called_like_a_picture_is_not_opened(tree) -> None:
    folder = tree({"a": 5, "b": 5})
    os.mkfifo(folder / "a" / "pipe.png")
    (folder / "a" / "gone.png").symlink_to("nowhere.png")
    data = open_data(folder)
    assert classes_of(data, "train") == {"a": 4, "b": 4}
    assert "left out, since they are no pictures: a/gone.png, a/pipe.png" in data.notes


@pytest.mark.skipif(sys.platform != "linux", reason="other systems allow no such names")
def test_names_that_are_no_text_are_read_and_shown(tree, picture: bytes) -> None:
    folder = tree({"a": 5, "b": 5})
    odd = os.fsencode(folder) + b"/caf\xe9"
    os.mkdir(odd)
    for number in range(5):
        Path(os.fsdecode(odd + b"/%d\xff.png" % number)).write_bytes(picture)
    data = open_data(folder)
    assert data.classes == ("a", "b", "caf\\udce9")
    assert data.train.picture(len(data.train) - 1) == picture
    for text in (*data.classes, *names(data.train), *data.notes, data.digest()):
        text.encode("utf-8")


def test_a_picture_that_vanished_is_an_error_of_its_own(tree) -> None:
    folder = tree({"a": 5, "b": 5})
    data = open_data(folder)
    (folder / data.train.name(0)).unlink()
    with pytest.raises(OSError, match="No such file"):
        data.train.picture(0)
    with pytest.raises(DataError, match=r"000.png cannot be read|\.png cannot be read"):
        data.digest()


def test_a_file_too_large_to_be_a_picture_is_not_read(tree) -> None:
    folder = tree({"a": 5, "b": 5})
    data = open_data(folder)
    os.truncate(folder / data.train.name(0), 1 << 40)
    with pytest.raises(OSError, match="too large"):
        data.train.picture(0)
