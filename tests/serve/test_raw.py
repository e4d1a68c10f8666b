"""A picture given in any way is the same picture."""

import io
import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from patchwords.data.picture import BrokenPictureError, decode
from patchwords.errors import UsageError
from patchwords.serve.raw import is_one, name_of, raw, read_file


def test_paths_and_bytes_are_the_file(tmp_path: Path, kinds: dict[str, bytes]) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(kinds["rgb.png"])
    assert raw(path) == raw(str(path)) == raw(kinds["rgb.png"]) == kinds["rgb.png"]


def test_an_image_of_pillow_gives_the_pixels_of_its_file(kinds: dict[str, bytes]) -> None:
    for name, data in kinds.items():
        found = raw(Image.open(io.BytesIO(data)))
        assert isinstance(found, np.ndarray)
        assert found.dtype == np.uint8
        assert np.array_equal(np.asarray(decode(found, 3)), np.asarray(decode(data, 3))), name


def test_an_image_that_was_loaded_before_is_no_other(kinds: dict[str, bytes]) -> None:
    for name in ("turned.jpg", "turned.tif", "turned.png"):
        image = Image.open(io.BytesIO(kinds[name]))
        image.load()
        assert np.array_equal(raw(image), raw(Image.open(io.BytesIO(kinds[name])))), name


def test_what_the_camera_noted_is_left_alone_where_the_card_says_so(kinds: dict[str, bytes]) -> None:
    for name in ("turned.jpg", "turned.png"):
        found = raw(Image.open(io.BytesIO(kinds[name])), "stored")
        assert np.array_equal(found, np.asarray(decode(kinds[name], 3, orientation="stored"))), name


def test_names_are_paths_where_there_are_any() -> None:
    assert name_of(Path("a") / "b.png", "picture") == os.path.join("a", "b.png")
    assert name_of("a\nb.png", "picture") == r"a\nb.png"
    assert name_of(b"...", "picture 3") == "picture 3"


def test_a_stack_of_arrays_and_a_list_are_many_and_the_rest_is_one() -> None:
    one = ("a.png", Path("a.png"), b"", Image.new("L", (2, 2)), np.zeros((2, 2, 3)), np.zeros((2, 2)))
    many = (["a.png"], iter(["a.png"]), {"a.png"}, np.zeros((5, 2, 2, 3)))
    assert all(map(is_one, one))
    assert not any(map(is_one, many))


@pytest.mark.parametrize("wrong", [3, None, ["a.png"], 1.5, {"a": 1}])
def test_what_is_no_picture_is_refused(wrong: object) -> None:
    with pytest.raises(UsageError, match=f"{type(wrong).__name__} is no kind of picture: give a path"):
        raw(wrong)  # type: ignore[arg-type]


def test_what_is_no_file_is_told_and_never_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(BrokenPictureError, match="it is a pipe or a device"):
        read_file(str(tmp_path / "pipe"))  # opened, it would wait for ever
    with pytest.raises(BrokenPictureError, match="it is a folder"):
        read_file(str(tmp_path))
    with pytest.raises(BrokenPictureError, match="No such file"):
        read_file(str(tmp_path / "nothing"))
    with pytest.raises(BrokenPictureError, match="cannot be read"):
        read_file("a\0b")


def test_a_file_too_large_for_a_picture_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "large.png").open("wb") as file:
        file.truncate((1 << 30) + 1)
    with pytest.raises(BrokenPictureError, match="larger than 1 GiB"):
        read_file(str(tmp_path / "large.png"))


def test_an_image_that_breaks_when_loaded_is_a_broken_picture(kinds: dict[str, bytes]) -> None:
    image = Image.open(io.BytesIO(kinds["rgb.png"][:900]))
    with pytest.raises(BrokenPictureError, match="cannot be decoded"):
        raw(image)


def test_a_lack_of_memory_is_no_fault_of_the_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: Image.Image) -> None:
        raise MemoryError

    image = Image.new("RGB", (2, 2))
    monkeypatch.setattr(Image.Image, "load", full)
    with pytest.raises(MemoryError):
        raw(image)


def test_an_image_without_pixels_is_refused() -> None:
    with pytest.raises(BrokenPictureError, match="0x5 pixels"):
        raw(Image.new("RGB", (0, 5)))


def test_an_image_too_large_is_refused() -> None:
    with pytest.raises(BrokenPictureError, match="million pixels"):
        raw(Image.new("1", (10_000, 6_000)))
