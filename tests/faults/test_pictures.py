"""PROMISE 8: every picture that cannot be read is named with the reason, kills nobody, and is replaced the same way."""

import io
import json
import os
import random
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from patchwords.data.sources.files import Files
from patchwords.errors import DataError
from patchwords.training import train as training
from patchwords.training.train import train
from patchwords.training.watch import Log

SEGMENT = b"\xff\xe1"  # APP1, where the camera's notes are


def whole(raw: bytes) -> bytes:
    return raw


def truncated(raw: bytes) -> bytes:
    return raw[: len(raw) // 2]


def zeroed(raw: bytes) -> bytes:
    return bytes(len(raw))


def text(raw: bytes) -> bytes:
    return b"<html>404 Not Found</html>\n" * 9


def empty(raw: bytes) -> bytes:
    return b""


def wrong_magic(raw: bytes) -> bytes:
    return b"\x89PNG\r\n\x1a\n" + raw[8:]


def noise(raw: bytes) -> bytes:
    return random.Random(len(raw)).randbytes(len(raw))


def huge(raw: bytes) -> bytes:
    """A BMP that claims 60,000 by 60,000 pixels."""
    stored = io.BytesIO()
    Image.new("RGB", (4, 4)).save(stored, "BMP")
    claim = bytearray(stored.getvalue())
    struct.pack_into("<ii", claim, 18, 60_000, 60_000)
    return bytes(claim)


def cut_notes(raw: bytes) -> bytes:
    """The camera's notes claim more bytes than there are."""
    return raw[:2] + SEGMENT + struct.pack(">H", 60_000) + b"Exif\0\0MM\0*" + raw[2:]


DAMAGES: tuple[Callable[[bytes], bytes], ...] = (
    truncated,
    zeroed,
    text,
    empty,
    wrong_magic,
    huge,
    noise,
    cut_notes,
)
FORBIDDEN, FOLDER = "forbidden", "folder"  # two more ways, which are not in the bytes


@dataclass
class Ear(Log):
    """Keeps what was said."""

    notes: list[str] = field(default_factory=list)

    def note(self, remark: str) -> None:
        self.notes.append(remark)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture
def damaged(paint, battery, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, dict[str, str]]:
    """Pictures of which one in twenty is damaged, and in which way each is."""
    count = battery(200, 1000)
    folder = paint(tmp_path / "photos", count)
    every = [folder / name for name in names(folder)]
    ways: dict[str, str] = {}
    for number, path in enumerate(random.Random(0).sample(every[1:], count // 20 - 1) + every[:1]):
        way = [*(each.__name__ for each in DAMAGES), FORBIDDEN, FOLDER][number % (len(DAMAGES) + 2)]
        ways[path.relative_to(folder).as_posix()] = way
        if number % (len(DAMAGES) + 2) < len(DAMAGES):
            path.write_bytes(DAMAGES[number % (len(DAMAGES) + 2)](path.read_bytes()))
        elif way == FOLDER:
            path.unlink()
            path.mkdir()
    forbid(monkeypatch, {name for name, way in ways.items() if way == FORBIDDEN})
    return folder, ways


def forbid(monkeypatch: pytest.MonkeyPatch, names: set[str]) -> None:
    """The system refuses to open these, whoever asks: modes do not stop an administrator."""
    before = Files.picture

    def picture(self: Files, index: int) -> bytes:
        if self.name(index) in names:
            raise PermissionError(13, "Permission denied", self.name(index))
        return before(self, index)

    monkeypatch.setattr(Files, "picture", picture)


def learn(folder: Path, recipe: Path, run: Path, ear: Ear, **change: Any) -> None:
    changes = {"duration": "1 epochs", "batch": 16, "minutes": 5.0} | {
        f"data.{key}": value for key, value in change.items()
    }
    train(folder, recipe=recipe, out=run, device="cpu", change=changes, watcher=ear)


def test_each_is_named_with_its_reason_and_the_bits_do_not_depend_on_workers(
    damaged, recipe: Path, bits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training, "report", lambda *_: None)
    folder, ways = damaged
    found = {}
    for workers in (0, 2):
        ear = Ear()
        learn(folder, recipe, tmp_path / f"run-{workers}", ear, workers=workers, broken=1.0)
        found[workers] = bits(tmp_path / f"run-{workers}")
        told = [re.fullmatch(r"(\S+) cannot be read \((.+)\); it is left out", note) for note in ear.notes]
        reasons = {match[1]: match[2] for match in told if match}
        assert set(reasons) == {name for name, way in ways.items() if way != FOLDER}
        assert len([match for match in told if match]) == len(reasons)  # once each
        assert all(len(reason) > 10 for reason in reasons.values())
        assert not any("process of the loader" in note for note in ear.notes)
    assert found[0] == found[2]
    judged = json.loads((tmp_path / "run-0" / "data.json").read_text())["names"]["val"]
    assert found[0].rows[-1]["count"] == len(set(judged) - set(ways))


def test_the_reasons_tell_the_ways_apart(damaged, recipe: Path, tmp_path: Path) -> None:
    folder, ways = damaged
    ear = Ear()
    learn(folder, recipe, tmp_path / "run", ear, broken=1.0)
    said = "\n".join(ear.notes)
    expected = {"empty": "the file is empty", "huge": "50 million pixels", FORBIDDEN: "Permission denied"}
    expected |= dict.fromkeys(("text", "noise", "zeroed"), "it is none of JPEG")
    expected |= dict.fromkeys(("truncated",), "it cannot be decoded")
    for name, way in ways.items():
        if way in expected:
            assert re.search(rf"{name} cannot be read \(.*{expected[way]}", said), (name, way)
    assert (tmp_path / "run" / "report.html").exists()


def test_more_than_the_allowed_share_is_an_error_with_code_3(damaged, recipe: Path, tmp_path: Path) -> None:
    folder, ways = damaged
    with pytest.raises(DataError, match=r"cannot be read, more than the allowed share of 0\.001") as caught:
        learn(folder, recipe, tmp_path / "run", Ear())
    assert caught.value.exit_code == 3
    assert any(name in str(caught.value) for name in ways)
    assert "data.broken" in str(caught.value)


def test_the_first_picture_may_be_broken_too(photos: Path, recipe: Path, tmp_path: Path, monkeypatch) -> None:
    forbid(monkeypatch, {name for name in names(photos) if name.startswith("amber")})
    ear = Ear()
    learn(photos, recipe, tmp_path / "run", ear, broken=1.0, workers=-1)
    assert sum("Permission denied" in note for note in ear.notes) >= 20


def names(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.jpg"))


def test_a_cache_leaves_them_out_as_well(damaged, recipe: Path, tmp_path: Path) -> None:
    folder, ways = damaged
    ear = Ear()
    learn(folder, recipe, tmp_path / "run", ear, broken=1.0, cache="memory")
    named = {note.split()[0] for note in ear.notes if "it is left out" in note}
    assert named == {name for name, way in ways.items() if way != FOLDER}
    with pytest.raises(DataError, match="more than the allowed share"):
        learn(folder, recipe, tmp_path / "other", Ear(), cache="memory")


def test_the_command_leaves_with_3(damaged, recipe: Path, launch, tmp_path: Path) -> None:
    folder, _ = damaged
    process = launch("train", folder, "--recipe", recipe, "--out", tmp_path / "run", "--device", "cpu")
    assert process.wait() == 3
    assert "more than the allowed share" in process.said
