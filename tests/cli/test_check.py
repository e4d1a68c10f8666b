"""`patchwords check`: a table for people, JSON for scripts, and exit code 3 for errors alone."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from patchwords.cli import VERBS, app
from patchwords.cli.check import check

if "check" not in VERBS:
    app.command("check")(check)


@pytest.fixture
def save(tmp_path: Path) -> Callable[..., Path]:
    """Writes noise with a seed to a file of the data set."""

    def save(name: str, seed: int) -> Path:
        file = tmp_path / "photos" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        random = np.random.default_rng(seed)
        Image.fromarray(random.integers(0, 256, (6, 6, 3), dtype=np.uint8)).resize((64, 64)).save(file)
        return file

    for number in range(12):
        save(f"{'rose' if number % 2 else 'tulip'}/{number}.png", number)
    return save


def test_a_sound_set_is_one_line_and_exit_code_0(run, save, tmp_path: Path) -> None:
    answer = run("check", str(tmp_path / "photos"))
    assert answer.code == 0
    assert answer.out.strip() == (
        "photos: 12 pictures (10 train, 2 val), 2 classes; 0 errors, 0 warnings; nothing was changed"
    )
    assert "held out for validation" in answer.err


def test_errors_are_a_table_and_exit_code_3(run, save, tmp_path: Path) -> None:
    save("rose/zero.png", 0)
    (tmp_path / "photos/rose/text.jpg").write_text("Roses are red")
    answer = run("check", str(tmp_path / "photos"), "--quiet")
    assert answer.code == 3
    assert "same picture under two labels" in answer.out
    assert "rose/zero.png (rose)" in answer.out
    assert "rose/text.jpg (it is none of JPEG" in answer.out
    assert "2 errors" in answer.out
    assert answer.err == ""


def test_warnings_alone_are_exit_code_0(run, save, tmp_path: Path) -> None:
    save("Rose/other.png", 77)
    answer = run("check", str(tmp_path / "photos"))
    assert answer.code == 0
    assert "'Rose' = 'rose'" in answer.out


def test_json_has_every_finding_and_a_summary(run, save, tmp_path: Path) -> None:
    for number in range(5):
        save(f"rose/same {number}.png", 1)
    answer = run("check", str(tmp_path / "photos"), "--json", "--quiet")
    *findings, summary = answer.json
    names = {name.partition(" (")[0] for each in findings for group in each["groups"] for name in group}
    assert {f"rose/same {number}.png" for number in range(5)} <= names
    assert all(each["severity"] in ("error", "warning", "note") and each["count"] for each in findings)
    assert summary["kind"] == "summary"
    assert sum(summary["pictures"].values()) == 17
    assert answer.code == (3 if summary["errors"] else 0)


def test_names_that_hold_commands_or_markup_are_printed_as_text(run, save, tmp_path: Path) -> None:
    for name in ("[bold]x[red].jpg", "a\x1b[31mred\nline.jpg"):
        (tmp_path / "photos/rose" / name).write_bytes(b"no picture")
    people = run("check", str(tmp_path / "photos"))
    assert people.code == 3
    assert "[bold]x[red].jpg" in people.out
    assert r"a\x1b[31mred\nline.jpg" in people.out
    (tmp_path / "photos/rose" / "\udcff\udcfe.jpg").write_bytes(b"no picture")
    scripts = run("check", str(tmp_path / "photos"), "--json")
    (names,) = [[name for (name,) in each["groups"]] for each in scripts.json if each["kind"] == "unreadable"]
    assert len(names) == 3


def test_pictures_without_labels_are_looked_at_and_called_so(run, save, tmp_path: Path) -> None:
    flat = tmp_path / "flat"
    flat.mkdir()
    for number, file in enumerate(sorted((tmp_path / "photos").rglob("*.png"))):
        file.rename(flat / f"{number}.png")
    (flat / "again.png").write_bytes((flat / "0.png").read_bytes())
    Image.open(flat / "1.png").save(flat / "saved-again.jpg", quality=95)
    (flat / "text.jpg").write_text("Roses are red")
    answer = run("check", str(flat))
    assert answer.code == 3
    assert "text.jpg (it is none of JPEG" in answer.out
    assert "same picture" in answer.out
    assert "near copy" in answer.out
    assert "class" not in answer.out
    assert "15 pictures (12 train, 3 val), no labels; 1 errors, 2 warnings; nothing was changed" in answer.out
    assert "flat holds 15 pictures but no class folders: make a folder for each class" in answer.err
    assert run("check", str(flat), "--json").json[-1]["classes"] == 0


def test_one_class_of_folders_is_most_likely_one_level_too_high_and_looked_at(run, save, tmp_path: Path) -> None:
    (tmp_path / "above").mkdir()
    (tmp_path / "photos").rename(tmp_path / "above" / "photos")
    answer = run("check", str(tmp_path / "above"))
    assert answer.code == 0
    assert f"are the classes, give {tmp_path / 'above' / 'photos'} instead" in answer.err
    assert "12 pictures (10 train, 2 val), no labels" in answer.out


def test_a_folder_without_pictures_is_refused(run, tmp_path: Path) -> None:
    answer = run("check", str(tmp_path))
    assert answer.code == 3
    assert "holds no pictures: put some in there" in answer.err


def test_what_is_no_data_set_is_refused(run, tmp_path: Path) -> None:
    answer = run("check", str(tmp_path / "nothing"))
    assert answer.code == 2
    assert "does not exist" in answer.err
