"""What a check finds in data sets with known faults, and that it changes none of them."""

import hashlib
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from patchwords.data.check import check as checking
from patchwords.data.check.check import check
from patchwords.data.check.findings import Findings
from patchwords.data.sources.arrays import Arrays
from patchwords.data.sources.door import open_data
from patchwords.data.sources.source import Data

FLOWERS = Path(__file__).resolve().parents[4] / "shared" / "data" / "flower_photos"


def photo(seed: int, size: tuple[int, int] = (90, 70)) -> Image.Image:
    """Coarse and fine random shapes."""
    random = np.random.default_rng(seed)
    cells = [Image.fromarray(random.integers(0, 256, (n, n, 3), dtype=np.uint8)).resize(size) for n in (5, 14)]
    return Image.blend(cells[0], cells[1], 0.4)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two classes of ten pictures, nothing wrong with them."""
    for number in range(20):
        place = tmp_path / "photos" / ("rose" if number < 10 else "tulip") / f"{number}.jpg"
        place.parent.mkdir(parents=True, exist_ok=True)
        photo(number).save(place, quality=92)
    return tmp_path / "photos"


@pytest.fixture
def parted(folder: Path) -> Path:
    """The same in train/ and val/."""
    for part, numbers in (("train", range(0, 20, 2)), ("val", range(1, 20, 2))):
        for number in numbers:
            name = "rose" if number < 10 else "tulip"
            (folder / part / name).mkdir(parents=True, exist_ok=True)
            (folder / name / f"{number}.jpg").rename(folder / part / name / f"{number}.jpg")
    for name in ("rose", "tulip"):
        (folder / name).rmdir()
    return folder


def found(findings: Findings) -> dict[str, tuple[str, ...]]:
    """The names of each kind of finding."""
    return {each.kind: tuple(" = ".join(group) for group in each.groups) for each in findings.every}


def full(folder: Path) -> Findings:
    return check(open_data(folder), depth="full")


def copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(source.read_bytes())


def test_nothing_is_found_where_nothing_is_wrong(folder: Path) -> None:
    findings = full(folder)
    assert findings.every == []
    assert (findings.pictures, findings.classes) == ({"train": 16, "val": 4}, 2)


def test_the_same_picture_in_two_splits_is_an_error(parted: Path) -> None:
    copy(parted / "train/rose/0.jpg", parted / "val/rose/other.jpg")
    findings = full(parted)
    assert found(findings) == {"leak": ("train/rose/0.jpg (train) = val/rose/other.jpg (val)",)}
    assert [each.kind for each in findings.errors] == ["leak"]


def test_a_near_copy_in_two_splits_is_a_warning(parted: Path) -> None:
    Image.open(parted / "train/rose/0.jpg").save(parted / "val/rose/again.jpg", quality=60)
    photo(2).resize((45, 35)).save(parted / "val/rose/half.png")
    findings = full(parted)
    assert found(findings) == {
        "near leak": (
            "train/rose/0.jpg (train) = val/rose/again.jpg (val)",
            "train/rose/2.jpg (train) = val/rose/half.png (val)",
        )
    }
    assert findings.errors == []


def test_a_leak_through_an_automatic_split_is_a_warning(folder: Path) -> None:
    for number in range(10):
        copy(folder / f"rose/{number}.jpg", folder / f"rose/copy of {number}.jpg")
    findings = full(folder)
    (leak,) = [each for each in findings.warnings if each.kind == "leak"]
    assert leak.what.endswith("on both sides of the automatic split")
    within = next(each for each in findings.warnings if each.kind == "copies")
    assert leak.count + within.count == 10
    assert findings.errors == []


def test_the_same_picture_under_two_labels_is_an_error(folder: Path) -> None:
    copy(folder / "rose/0.jpg", folder / "tulip/x.jpg")
    findings = full(folder)
    assert found(findings)["labels"] == ("rose/0.jpg (rose) = tulip/x.jpg (tulip)",)
    assert "labels" in [each.kind for each in findings.errors]


def test_near_copies_of_exact_copies_make_one_group(parted: Path) -> None:
    copy(parted / "train/rose/0.jpg", parted / "train/rose/copy.jpg")
    Image.open(parted / "train/rose/0.jpg").save(parted / "train/rose/smaller.jpg", quality=50)
    assert found(full(parted)) == {
        "copies": ("train/rose/0.jpg = train/rose/copy.jpg",),
        "near copies": ("train/rose/0.jpg = train/rose/copy.jpg = train/rose/smaller.jpg",),
    }


def test_unreadable_pictures_are_named_with_the_reason(folder: Path) -> None:
    whole = (folder / "rose/0.jpg").read_bytes()
    (folder / "rose/0.jpg").write_bytes(whole[: len(whole) // 2])
    (folder / "rose/1.jpg").write_bytes(b"this is a text")
    (folder / "rose/2.jpg").write_bytes(b"")
    (names,) = (each.groups for each in full(folder).errors)
    assert [name.partition(" (")[0] for (name,) in names] == ["rose/0.jpg", "rose/1.jpg", "rose/2.jpg"]
    for (name,), reason in zip(names, ("truncated", "none of JPEG", "empty"), strict=True):
        assert reason in name


def test_a_listed_file_of_a_kind_that_is_not_read_is_named_with_what_to_do(folder: Path) -> None:
    (folder / "rose/0.jpg").rename(folder / "rose/0.heic")
    (folder / "rose/0.heic").write_bytes(b"x")
    rows = [f"{path.relative_to(folder)},{path.parent.name}" for path in sorted(folder.glob("*/*.*"))]
    (folder / "list.csv").write_text("\n".join(["path,label", *rows]))
    (names,) = (each.groups for each in check(open_data(folder / "list.csv")).errors)
    assert names == (("rose/0.heic (such files are not read: convert them to JPEG or PNG)",),)


def test_a_picture_that_vanishes_or_may_not_be_read_is_an_error(folder: Path) -> None:
    data = open_data(folder)
    (folder / "rose/3.jpg").unlink()
    (folder / "rose/4.jpg").unlink()
    (folder / "rose/4.jpg").mkdir()
    (error,) = check(data).errors
    assert error.groups == (("rose/3.jpg (No such file or directory)",), ("rose/4.jpg (Is a directory)",))


def test_quick_looks_at_headers_and_exact_copies_alone(folder: Path) -> None:
    whole = (folder / "rose/0.jpg").read_bytes()
    (folder / "rose/0.jpg").write_bytes(whole[: len(whole) // 2])  # the header is still there
    (folder / "rose/1.jpg").write_bytes(b"this is a text")
    copy(folder / "rose/2.jpg", folder / "tulip/x.jpg")
    Image.open(folder / "rose/3.jpg").save(folder / "tulip/y.jpg", quality=60)
    findings = check(open_data(folder), depth="quick")
    assert set(found(findings)) - {"leak"} == {"unreadable", "labels"}
    assert found(findings)["unreadable"][0].startswith("rose/1.jpg")


def test_odd_shapes_and_sizes_are_warnings(folder: Path) -> None:
    photo(50, (600, 100)).save(folder / "rose/long.png")
    photo(51, (90, 12)).save(folder / "rose/tiny.png")
    findings = full(folder)
    assert found(findings) == {"tiny": ("rose/tiny.png",), "long": ("rose/long.png", "rose/tiny.png")}
    assert findings.errors == []


def test_kinds_of_pictures_are_counted(folder: Path) -> None:
    tags = Image.Exif()
    tags[0x0112] = 6
    photo(50).save(folder / "rose/turned.jpg", exif=tags)
    photo(51).convert("L").save(folder / "rose/grey.jpg")
    photo(52).convert("CMYK").save(folder / "rose/cmyk.jpg")
    photo(53).convert("RGBA").save(folder / "rose/alpha.png")
    photo(54).quantize(8).save(folder / "rose/palette.png", transparency=3)
    Image.fromarray(np.asarray(photo(55).convert("L")).astype(np.uint16) * 256).save(folder / "rose/deep.png")
    findings = full(folder)
    assert {each.kind: sorted(name for (name,) in each.groups) for each in findings.notes} == {
        "grey": ["rose/grey.jpg"],
        "CMYK": ["rose/cmyk.jpg"],
        "deep": ["rose/deep.png"],
        "alpha": ["rose/alpha.png", "rose/palette.png"],
        "turned": ["rose/turned.jpg"],
    }
    assert findings.errors + findings.warnings == []


def test_doubtful_classes_are_warnings(folder: Path) -> None:
    for number in range(100, 200):
        photo(number, (40, 40)).save(folder / f"tulip/{number}.png")
    copy(folder / "rose/0.jpg", folder / "Rose /z.jpg")
    photo(70).save(folder / "Rose /z.jpg")
    warnings = found(check(open_data(folder), depth="quick"))
    assert warnings["single"] == ("Rose ",)
    assert warnings["names"] == ("'Rose ' = 'rose'",)
    assert warnings["uneven"] == ("Rose  (1)", "rose (8)")
    assert warnings["missing"] == ("Rose ",)


def test_a_class_that_validation_lacks_is_named(parted: Path) -> None:
    for file in (parted / "val/tulip").iterdir():
        file.unlink()
    assert found(full(parted))["missing"] == ("tulip",)


def test_the_users_files_stay_as_they_are(parted: Path) -> None:
    copy(parted / "train/rose/0.jpg", parted / "val/tulip/x.jpg")
    (parted / "val/rose/broken.jpg").write_bytes(b"nothing")

    def state() -> list[tuple[str, int, str]]:
        files = sorted(path for path in parted.rglob("*") if path.is_file())
        return [(str(f), os.stat(f).st_mtime_ns, hashlib.sha256(f.read_bytes()).hexdigest()) for f in files]

    before = state()
    full(parted)
    assert state() == before


def arrays(images: np.ndarray, classes: int = 2) -> Data:
    labels = np.arange(len(images)) % classes
    half = len(images) // 2
    names = tuple(str(label) for label in range(classes))
    return Data(
        "set", names, Arrays(images[:half], labels[:half], "train"), Arrays(images[half:], labels[half:], "val")
    )


@pytest.mark.parametrize("channels", [1, 2, 3, 5])
def test_arrays_of_any_number_of_channels_are_checked(channels: int) -> None:
    images = np.stack([np.asarray(photo(seed, (48, 40)))[:, :, :1].repeat(channels, 2) for seed in range(8)])
    images[7], images[1][0, 0] = images[0], 0
    assert found(check(arrays(images))) == {
        "leak": ("train/0 (train) = val/3 (val)",),
        "labels": ("train/0 (0) = val/3 (1)",),
    }


def test_small_arrays_are_not_called_near_copies() -> None:
    random = np.random.default_rng(0)
    digit = random.integers(0, 256, (8, 8, 1), dtype=np.uint8)
    images = np.stack([digit] * 10)
    images[np.arange(10), 0, 0, 0] = np.arange(10)
    assert check(arrays(images)).every == []


def test_processes_find_the_same(folder: Path) -> None:
    copy(folder / "rose/0.jpg", folder / "tulip/x.jpg")
    (folder / "rose/1.jpg").write_bytes(b"no picture")
    data = open_data(folder)
    counted: list[tuple[int, int]] = []
    alone, together = check(data, workers=0), check(data, workers=2, progress=lambda *count: counted.append(count))
    assert alone == together
    assert counted[-1] == (21, 21)


def test_a_quick_look_at_very_many_pictures_is_a_sample_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checking, "QUICK_MOST", 40)
    monkeypatch.setattr(checking, "QUICK_SAMPLE", 10)
    images = np.random.default_rng(0).integers(0, 256, (100, 40, 40, 3), dtype=np.uint8)
    remarks: list[str] = []
    seen: list[tuple[int, int]] = []
    progress: Callable[[int, int], None] = lambda *count: seen.append(count)  # noqa: E731
    check(arrays(images), depth="quick", progress=progress, note=remarks.append)
    assert seen[-1] == (10, 10)
    assert "every 10th picture" in remarks[0]


def test_sentences_are_errors_then_warnings(folder: Path) -> None:
    copy(folder / "rose/0.jpg", folder / "tulip/x.jpg")
    photo(50, (600, 100)).save(folder / "rose/long.png")
    sentences = check(replace(open_data(folder), name="x"), depth="quick").sentences()
    assert sentences[0] == "same picture under two labels (1): rose/0.jpg (rose) = tulip/x.jpg (tulip)"
    assert "picture more than 5 times as long as wide (1): rose/long.png" in sentences


@pytest.mark.skipif(not FLOWERS.is_dir(), reason="needs the flower photos")
def test_the_copies_in_the_flower_photos_are_found() -> None:
    kinds = found(check(open_data(FLOWERS), depth="quick"))
    assert kinds["labels"] == ("roses/15922772266_1167a06620.jpg (roses) = tulips/15922772266_1167a06620.jpg (tulips)",)
    assert len(kinds.get("copies", ())) + len(kinds.get("leak", ())) == 2
