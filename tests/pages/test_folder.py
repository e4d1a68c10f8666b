"""Folders for results: numbered, never overwritten, and not left behind empty."""

import errno
import os
from pathlib import Path

import pytest

from patchwords.errors import ResourceError, UsageError
from patchwords.pages.folder import fresh, numbered


def test_numbers_go_on_after_the_highest(tmp_path: Path) -> None:
    (tmp_path / "photos-7").mkdir()
    (tmp_path / "photos-12-old").mkdir()
    assert [numbered(tmp_path, "photos").name for _ in range(2)] == ["photos-8", "photos-9"]
    assert numbered(tmp_path, "other").name == "other-1"


@pytest.mark.parametrize(
    ("name", "folder"), [("../../etc", "etc-1"), ("a b/c", "a-b-c-1"), ("...", "run-1"), ("\u82b1", "\u82b1-1")]
)
def test_no_name_leads_out_of_the_root(tmp_path: Path, name: str, folder: str) -> None:
    made = numbered(tmp_path / "runs", name)
    assert made == tmp_path / "runs" / folder
    assert made.is_dir()


def fail(root: Path, *files: str) -> None:
    """Work that leaves these files and then comes to nothing."""
    with fresh(None, "photos", root) as place:
        for name in files:
            (place / name).touch()
        raise ZeroDivisionError


def test_what_stays_empty_is_taken_away_again(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        fail(tmp_path)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ZeroDivisionError):
        fail(tmp_path, "first.txt")
    assert [path.name for path in tmp_path.iterdir()] == ["photos-1"]


def test_an_empty_folder_of_the_users_is_used_and_kept(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    with fresh(tmp_path / "mine", "photos") as place:
        assert place == tmp_path / "mine"
    assert place.is_dir()


def test_a_place_below_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path, root in ((tmp_path / "file" / "deeper", tmp_path), (None, tmp_path / "file" / "runs")):
        sentence = r"cannot be written, since .*/file is a file and no folder: choose another place"
        with pytest.raises(UsageError, match=sentence), fresh(path, "photos", root):
            pass


def test_a_place_where_no_folder_can_be_made_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "mkdir", full)
    sentence = r"no folder can be made at .*photos \(No space left.*\): choose another place with --out"
    with pytest.raises(ResourceError, match=sentence), fresh(tmp_path / "photos", "photos"):
        pass


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    for name, sentence in (("full", "is not empty"), ("full/file", "is a file")):
        with pytest.raises(UsageError, match=sentence), fresh(tmp_path / name, "photos"):
            pass
