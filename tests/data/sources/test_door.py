"""Whatever is given, the one door finds out what it is, or says what it could have been."""

import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from patchwords.data.sources.door import open_data, open_pictures, place, spelled
from patchwords.data.sources.source import Data
from patchwords.errors import DataError, UsageError

ROOT = Path(__file__).resolve().parents[3]
FLOWERS = ROOT.parent / "shared" / "data" / "flower_photos"


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("cifr10", "'cifr10' does not exist, as a folder, a file or a public data set; did you mean cifar10"),
        ("Digits", "did you mean digits"),
        ("/nowhere/at/all", "does not exist, as a folder, a file or a public data set; there are digits, cifar10"),
        ("", "'' does not exist"),
        ("a\0b", "does not exist"),
        ("~nobody-of-this-name/photos", "does not exist"),
        ("x" * 5000, "does not exist"),
    ],
)
def test_what_does_not_exist_hears_the_nearest_name(given: str, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        open_data(given)


@pytest.mark.parametrize("name", ["model.safetensors", "photo.jpg", "pictures.tar.xz", "noend"])
def test_a_file_of_another_kind_hears_what_is_read(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"x")
    with pytest.raises(UsageError, match=rf"{name} is none of .npz, .csv, .*: give one of these, or a folder"):
        open_data(tmp_path / name)


def test_a_zip_is_to_be_unpacked_first(tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_bytes(b"PK\x05\x06" + bytes(18))
    with pytest.raises(DataError, match="unpack it, and give the folder"):
        open_data(tmp_path / "a.zip")


@pytest.mark.parametrize("opens", [partial(open_data, split=None), partial(open_pictures, split=None)])
def test_a_folder_goes_before_a_download_and_that_is_said(
    opens: Callable[[str], Data], tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tree({"a": 5, "b": 5}).rename(tmp_path / "cifar10")
    monkeypatch.chdir(tmp_path)
    data = opens("cifar10")
    assert data.classes == ("a", "b")
    assert data.notes[0] == f"cifar10 is {folder}, which lies here, and not the public set of that name"
    assert place("cifar10") == str(folder)
    assert not opens("./cifar10").notes


@pytest.mark.parametrize("opens", [partial(open_data, split=None), partial(open_pictures, split=None)])
def test_no_folder_hides_the_digits(
    opens: Callable[[str | Path], Data], tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not opens("digits").notes
    tree({"a": 5, "b": 5}).rename(tmp_path / "digits")
    monkeypatch.chdir(tmp_path)
    data = opens("digits")
    assert len(data.classes) == 10
    assert data.notes[0] == "digits are the built-in ones; what lies here is ./digits"
    assert place("digits") == "digits"


@pytest.mark.parametrize("given", ["./digits", "digits/", Path("digits"), "../work/digits"])
def test_a_folder_called_digits_is_meant_by_its_path(
    given: str | Path, tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "work").mkdir()
    folder = tree({"a": 5, "b": 5}).rename(tmp_path / "work" / "digits")
    monkeypatch.chdir(folder.parent)
    data = open_data(given, split=None)
    assert (data.name, data.classes, data.notes) == ("digits", ("a", "b"), ())
    assert place(spelled(given)) == str(folder)


@pytest.mark.parametrize("given", [".", "..", "a/..", "../photos", "./"])
def test_a_folder_has_its_own_name_whatever_it_is_called_from_here(
    tree, given: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tree({"a": 5, "b": 5})
    monkeypatch.chdir(folder / "a" if given == ".." else folder)
    data = open_data(given)
    assert (data.name, data.classes) == ("photos", ("a", "b"))


def test_the_home_folder_has_its_sign(tree, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tree({"a": 5, "b": 5})
    monkeypatch.setenv("HOME", str(folder.parent))
    assert open_data("~/photos").name == "photos"


def test_sources_stay_where_they_are_when_the_folder_changes(
    tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tree({"a": 5, "b": 5}))
    data = open_data(".")
    monkeypatch.chdir(tmp_path)
    assert data.train.picture(0)


def test_a_name_unfit_for_a_folder_is_made_fit(tree, tmp_path: Path) -> None:
    odd = tree({"a": 5, "b": 5}).rename(tmp_path / "my photos; rm -rf *")
    assert open_data(odd).name == "my-photos-rm-rf"


def test_opening_data_loads_no_torch(tree) -> None:
    code = f"import sys; from patchwords.data.sources.door import open_data; open_data({str(tree({'a': 5, 'b': 5}))!r})"
    code += "; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(ROOT)}).returncode == 0


@pytest.mark.skipif(not FLOWERS.is_dir(), reason="the flower photos are not on this machine")
def test_the_flower_photos_open_as_they_stand() -> None:
    data = open_data(FLOWERS)
    assert data.classes == ("daisy", "dandelion", "roses", "sunflowers", "tulips")
    assert (len(data.train), len(data.val)) == (2939, 731)
    assert np.bincount(data.val.labels).tolist() == [126, 179, 128, 139, 159]
    assert "left out, since they are no pictures: LICENSE.txt" in data.notes


def test_a_path_is_found_again_from_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "photos").mkdir()
    monkeypatch.chdir(tmp_path)
    assert place("photos") == str(tmp_path / "photos")
    assert place("train-{000..010}.tar") == str(tmp_path / "train-{000..010}.tar")
    assert place("digits") == "digits"
