"""What IMAGE words mean."""

import os
import sys
from pathlib import Path

import pytest

from patchwords.data.broken import Damage
from patchwords.data.picture import BrokenPictureError
from patchwords.errors import UsageError
from patchwords.serve.given import Given, is_like_a_picture, read


def none() -> bytes:
    raise AssertionError("stdin was read, and nobody asked for it")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to stand in, with pictures and other things."""
    names = "b.png a.JPG deep/c.jpeg deep/er/d.webp deep/.hidden/e.png deep/notes.txt .f.png Thumbs.db __MACOSX/g.png"
    for name in names.split():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def names(given: Given) -> list[str]:
    return [given.source.name(number) for number in range(len(given.source))]


def test_files_are_taken_as_they_are_named(here: Path) -> None:
    assert names(read(["b.png", "a.JPG", "deep/notes.txt", ".f.png"], none)) == [
        "b.png",
        "a.JPG",
        "deep/notes.txt",
        ".f.png",
    ]


def test_a_folder_is_all_pictures_below_it_sorted_without_litter(here: Path) -> None:
    assert names(read(["."], none)) == ["./a.JPG", "./b.png", "./deep/c.jpeg", "./deep/er/d.webp"]
    assert names(read(["deep/"], none)) == ["deep/c.jpeg", "deep/er/d.webp"]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("*.png", "b.png"),
        ("*.[jJ]*", "a.JPG"),
        ("?.png", "b.png"),
        ("deep/*", "deep/c.jpeg deep/er/d.webp"),
        ("**/*.webp", "deep/er/d.webp"),
        ("**", "a.JPG b.png deep/c.jpeg deep/er/d.webp"),
        ("deep/**", "deep/c.jpeg deep/er/d.webp"),
        ("**/*", "a.JPG b.png deep/c.jpeg deep/er/d.webp"),
        ("**.png", "b.png"),
        ("de*/**/er/*", "deep/er/d.webp"),
        (".*.png", ".f.png"),
        ("*", "a.JPG b.png deep/c.jpeg deep/er/d.webp"),
    ],
)
def test_patterns_find_pictures(here: Path, pattern: str, expected: str) -> None:
    assert [os.path.normpath(name) for name in names(read([pattern], none))] == expected.split()
    absolute = [str(here / name) for name in expected.split()]
    assert sorted(names(read([str(here / pattern)], none))) == sorted(absolute)


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("*.gif", r"\*\.gif is no file, and as a pattern it matches nothing$"),
        ("deep/*.txt", "nothing that ends as a picture does"),
        ("nowhere/**/*.png", "matches nothing"),
        ("b.pgn", r"b\.pgn does not exist; did you mean b\.png\?"),
        ("deep/c.jpg", r"did you mean deep/c\.jpeg\?"),
        ("nowhere/c.jpg", "does not exist: give files, folders, patterns in quotes, or - for stdin"),
        ("zzzzzzzzzz", "does not exist: look how it is spelled"),
        ("", "'' does not exist"),
        ("a\x1b[31m.png", r"a\\x1b\[31m\.png does not exist"),
        ("x" * 5000, "does not exist"),
        ("[a/b].png", "does not exist"),
        ("[!]*]", "matches nothing"),
    ],
)
def test_what_means_nothing_is_refused(here: Path, word: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read(["b.png", word], none)


def test_all_that_a_shell_finds_is_taken_and_what_is_broken_among_it_is_told(here: Path) -> None:
    """`photos/*` without quotes names folders without pictures, links that lead nowhere and pipes as well."""
    (here / "empty").mkdir()
    (here / "link.png").symlink_to("nowhere")
    os.mkfifo(here / "pipe")
    given = read(["b.png", "empty", "link.png", "pipe", "deep"], none)
    assert names(given) == ["b.png", "link.png", "pipe", "deep/c.jpeg", "deep/er/d.webp"]
    assert given.damages == (Damage("empty", "the folder holds no pictures"),)
    for number, reason in ((1, "No such file"), (2, "it is a pipe or a device")):
        with pytest.raises(BrokenPictureError, match=reason):
            given.source.picture(number)
    assert names(read(["empty"], none)) == []


def test_pictures_that_are_not_read_are_named_where_there_are_no_others(here: Path) -> None:
    (here / "phone" / "more").mkdir(parents=True)
    for name in ("phone/b.HEIC", "phone/more/a.avif", "phone/list.txt"):
        (here / name).write_bytes(b"")
    said = "no pictures that can be read, only such of other kinds (phone/b.HEIC, phone/more/a.avif): convert them to"
    assert read(["phone"], none).damages == (Damage("phone", f"the folder holds {said} JPEG or PNG"),)
    with pytest.raises(UsageError, match=r"matches no pictures .* kinds \(phone/b\.HEIC\): convert them to"):
        read(["phone/b*"], none)
    (here / "phone" / "c.png").write_bytes(b"")
    assert read(["phone"], none).damages == ()


def test_empty_folders_of_a_list_alone_are_no_pictures(here: Path) -> None:
    (here / "empty").mkdir()
    with pytest.raises(UsageError, match="there are no pictures to predict"):
        read(["-"], lambda: b"empty\n")


def test_sizes_are_told_without_reading(here: Path) -> None:
    Path("b.png").write_bytes(b"12345")
    given = read(["b.png", "-"], lambda: b"GIF89a...")
    Path("b.png").chmod(0)
    assert [given.source.size(number) for number in range(2)] == [5, 9]


def test_a_file_whose_name_is_a_pattern_is_that_file(here: Path) -> None:
    (here / "[ab].png").write_bytes(b"")
    (here / "st*r.png").write_bytes(b"")
    assert names(read(["[ab].png", "st*r.png"], none)) == ["[ab].png", "st*r.png"]


def test_a_pattern_may_begin_at_home(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(here / "deep"))
    assert names(read(["~/*.jpeg"], none)) == [str(here / "deep/c.jpeg")]


def test_the_same_file_is_taken_once_however_it_is_called(here: Path) -> None:
    (here / "again").symlink_to("deep")
    given = read(["b.png", "./b.png", str(here / "b.png"), "deep/../b.png", "*.png", ".", "again"], none)
    assert {os.path.realpath(name) for name in names(given)} == {
        str(here / name) for name in ("b.png", "a.JPG", "deep/c.jpeg", "deep/er/d.webp")
    }
    assert len(names(given)) == 4


def test_two_files_are_never_taken_for_one(here: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """`link/../b.png` lies beside the folder that the link leads to."""
    other = tmp_path_factory.mktemp("other")
    (other / "folder").mkdir()
    (other / "b.png").write_bytes(b"")
    (here / "link").symlink_to(other / "folder")
    assert names(read(["b.png", "link/../b.png"], none)) == ["b.png", "link/../b.png"]


def test_links_in_a_ring_come_to_an_end(here: Path) -> None:
    for name in ("deep/one", "deep/two", "deep/er/three"):
        (here / name).symlink_to(here)
    assert len(names(read(["."], none))) == 4
    assert len(names(read(["**/*.webp"], none))) == 1


def test_a_folder_that_cannot_be_read_is_broken_and_the_rest_is_taken(here: Path, monkeypatch) -> None:
    from patchwords.serve import given as module

    def locked(folder: str):
        if str(folder).endswith("er"):
            raise module.DataError("locked")
        return listing(folder)

    listing = module.listing
    monkeypatch.setattr(module, "listing", locked)
    found = read(["deep"], none)
    assert names(found) == ["deep/c.jpeg"]
    assert found.damages == (Damage("deep/er", "the folder cannot be read"),)


def test_links_that_lead_nowhere_are_found_broken_later(here: Path) -> None:
    (here / "deep/gone.png").symlink_to("nowhere")
    assert "deep/gone.png" in names(read(["deep"], none))


@pytest.mark.parametrize("separator", ["\n", "\r\n", "\0", "\n\n\n"])
def test_a_list_of_paths_comes_through_stdin(here: Path, separator: str) -> None:
    (here / " odd name ,;*.png").write_bytes(b"")
    paths = ["b.png", "nowhere.png", " odd name ,;*.png", "deep/notes.txt", "b.png"]
    given = read(["-"], lambda: (separator.join(paths) + separator).encode())
    assert names(given) == paths[:-1]


def test_find_lists_folders_too_and_each_picture_is_taken_once(here: Path) -> None:
    (here / "empty").mkdir()
    listed = ".\n./b.png\n./a.JPG\n./deep\n./deep/c.jpeg\n./deep/er\n./deep/er/d.webp\n./empty\n"
    assert names(read(["-"], listed.encode)) == ["./a.JPG", "./b.png", "./deep/c.jpeg", "./deep/er/d.webp"]


@pytest.mark.skipif(sys.platform == "darwin", reason="its file names are text")
def test_names_that_are_no_text_are_found(here: Path) -> None:
    odd = b"\xff\xfe.png"
    Path(os.fsdecode(odd)).write_bytes(b"picture")
    given = read(["-"], lambda: odd + b"\0")
    assert given.source.picture(0) == b"picture"
    assert names(given) == [r"\udcff\udcfe.png"]
    assert names(read(["."], none))[-1] == r"./\udcff\udcfe.png"


def test_a_picture_comes_through_stdin(here: Path, kinds: dict[str, bytes]) -> None:
    for data in kinds.values():
        given = read(["b.png", "-", "-"], iter([data]).__next__)  # it can be read once
        assert names(given) == ["b.png", "stdin"]
        assert given.source.picture(1) == data


def test_bytes_of_every_format_are_known_and_lists_are_none(kinds: dict[str, bytes]) -> None:
    assert all(map(is_like_a_picture, kinds.values()))
    lists = (b"BMW/1.png\n", b"BMW\0BMX\0BM\0BM\0", b"RIFF/WEBP.png", b"II/1.png", b"GIF/1.gif", b"/a/b.png", b"")
    assert not any(map(is_like_a_picture, lists))


def test_an_empty_stdin_is_refused() -> None:
    for data in (b"", b"\n\n", b"\0", b" \n"):
        with pytest.raises(UsageError, match="nothing came through stdin"):
            read(["-"], lambda data=data: data)


def test_bytes_that_are_neither_picture_nor_list_are_refused() -> None:
    for data in (b"%PDF-1.7\n\x01\x02\x03", bytes(range(256)), b"\0\0\0 ftypheic\x01\x02"):
        with pytest.raises(UsageError, match="neither a picture"):
            read(["-"], lambda data=data: data)


def test_a_list_that_windows_wrote_begins_with_a_mark(here: Path) -> None:
    assert names(read(["-"], lambda: b"\xef\xbb\xbfb.png\r\n")) == ["b.png"]
