"""Shards in the WebDataset layout."""

import gzip
import io
import json
import os
import pickle
import tarfile
from pathlib import Path

import pytest

from patchwords.data.sources.door import open_data
from patchwords.errors import DataError, UsageError


def shard(path: Path, members: dict[str, bytes]) -> Path:
    path.parent.mkdir(exist_ok=True)
    with tarfile.open(path, "w") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def samples(first: int, count: int, kind: str = "cls") -> dict[str, bytes]:
    """Pictures with the classes 0 and 1 in turn, called so or cat and dog."""
    members = {}
    for number in range(first, first + count):
        name = ("cat", "dog")[number % 2]
        label = {"cls": f"{number % 2}\n", "txt": name, "json": json.dumps({"label": name, "width": 3})}[kind]
        members[f"{number:04}.jpg"] = b"picture %d" % number
        members[f"{number:04}.{kind}"] = label.encode()
    return members


def test_a_folder_of_shards_has_the_parts_of_their_names(tmp_path: Path) -> None:
    folder = tmp_path / "set"
    for number in range(3):
        shard(folder / f"train-{number:06}.tar", samples(10 * number, 10))
    shard(folder / "val-000000.tar", samples(30, 4))
    shard(folder / "test_0.tar", samples(40, 6))
    data = open_data(folder)
    assert (data.name, data.classes) == ("set", ("0", "1"))
    assert [len(source) for source in data.splits.values()] == [30, 4, 6]
    assert data.train.picture(17) == b"picture 17"
    assert data.train.name(17) == "train-000001.tar/0017.jpg"
    assert data.train.size(17) == 10
    assert data.train.labels.tolist() == [0, 1] * 15


def test_a_pattern_names_shards(tmp_path: Path) -> None:
    for number in range(12):
        shard(tmp_path / f"flowers-{number:03}.tar", samples(10 * number, 10))
    data = open_data(f"{tmp_path}/flowers-{{008..010}}.tar")
    assert (data.name, len(data.train) + len(data.val)) == ("flowers", 30)
    assert {data.train.picture(index) for index in range(len(data.train))} <= {
        b"picture %d" % n for n in range(80, 110)
    }


def test_a_single_shard_is_split(tmp_path: Path) -> None:
    data = open_data(shard(tmp_path / "all.tar", samples(0, 20)))
    assert (data.name, [len(source) for source in data.splits.values()]) == ("all", [16, 4])


@pytest.mark.parametrize("kind", ["txt", "json"])
def test_labels_may_be_names(tmp_path: Path, kind: str) -> None:
    data = open_data(shard(tmp_path / "all.tar", samples(0, 20, kind)))
    assert data.classes == ("cat", "dog")
    assert {data.classes[label] for label, name in zip(data.train.labels, range(20), strict=False)} == {"cat", "dog"}
    assert data.train.labels.tolist() == [int(data.train.picture(index).split()[1]) % 2 for index in range(16)]


def test_ten_classes_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    members = {}
    for number in range(60):
        members |= {f"{number}.png": b"x", f"{number}.cls": b"%d" % (number % 12)}
    assert open_data(shard(tmp_path / "all.tar", members)).classes == tuple(map(str, range(12)))


def test_a_class_beside_a_json_about_something_else_counts(tmp_path: Path) -> None:
    members = samples(0, 20) | {f"{number:04}.json": b'{"width": 3}' for number in range(20)}
    assert open_data(shard(tmp_path / "all.tar", members)).classes == ("0", "1")


def test_folders_inside_keep_samples_apart(tmp_path: Path) -> None:
    members = {f"{folder}/{name}": content for folder in "ab" for name, content in samples(0, 10).items()}
    data = open_data(shard(tmp_path / "all.tar", members))
    assert len(data.train) + len(data.val) == 20
    assert data.train.name(0) == "all.tar/a/0000.jpg"


def test_what_is_neither_picture_nor_label_is_left_out_and_said(tmp_path: Path) -> None:
    data = open_data(
        shard(tmp_path / "all.tar", samples(0, 20) | {"0000.mask.png": b"x", "._0001.jpg": b"x", "readme": b"x"})
    )
    assert data.notes[0] == "left out, since they are neither pictures nor labels: 0000.mask.png, ._0001.jpg, readme"


def test_workers_can_be_given_shards(tmp_path: Path) -> None:
    train = pickle.loads(pickle.dumps(open_data(shard(tmp_path / "all.tar", samples(0, 20))).train))
    assert train.picture(0).startswith(b"picture")


@pytest.mark.parametrize(
    ("members", "sentence"),
    [
        ({"1.jpg": b"x"}, "1 has 1.jpg: a sample is one picture and one label"),
        ({"1.cls": b"0"}, "1 has .cls: a sample is one picture and one label"),
        ({"1.json": b"{}"}, "1 has nothing: a sample is one picture and one label"),
        ({"1.jpg": b"x", "1.png": b"x", "1.cls": b"0"}, "1 has 1.jpg, 1.png, .cls"),
        ({"1.jpg": b"x", "1.cls": b"cat"}, "1.cls has the label 'cat': a .cls holds a number"),
        ({"1.jpg": b"x", "1.cls": b"-1"}, "1.cls has the label '-1'"),
        ({"1.jpg": b"x", "1.txt": b" "}, "1.txt has the label ''"),
        ({"1.jpg": b"x", "1.txt": b"\xff"}, "1.txt is no txt in UTF-8"),
        ({"1.jpg": b"x", "1.json": b"{"}, "1.json is no json in UTF-8"),
        ({"1.jpg": b"x", "1.json": b"[" * 100_000}, "1.json is no json in UTF-8"),
        ({"1.jpg": b"x", "1.json": b'{"label": 0.5}'}, "1.json has the label '0.5'"),
        ({"1.jpg": b"x", "1.txt": b"x" * 2_000_000}, "1.txt has 2000000 bytes, more than"),
        ({"1.jpg": b"x", "1.cls": b"99999999"}, "labels up to 99999999, but 3 different ones"),
        ({"../1.jpg": b"x", "1.cls": b"0"}, "a name that could lead elsewhere"),
    ],
)
def test_wrong_samples_are_refused(tmp_path: Path, members: dict[str, bytes], sentence: str) -> None:
    path = shard(tmp_path / "all.tar", {f"9{name}": content for name, content in samples(0, 10).items()} | members)
    with pytest.raises(DataError, match=sentence):
        open_data(path)


def test_packed_shards_are_refused(tmp_path: Path) -> None:
    path = shard(tmp_path / "all.tar", samples(0, 10))
    path.write_bytes(gzip.compress(path.read_bytes()))
    with pytest.raises(DataError, match="is packed, and single pictures cannot be read from it"):
        open_data(path)


def test_every_truncation_within_a_picture_is_noticed(tmp_path: Path) -> None:
    whole = shard(tmp_path / "all.tar", {"1.cls": b"0", "1.jpg": b"x" * 5000}).read_bytes()
    for length in (1030, 1536, 3000, 6500):
        (tmp_path / "all.tar").write_bytes(whole[:length])
        with pytest.raises(DataError, match=r"damaged|ends within|a sample is one picture"):
            open_data(tmp_path / "all.tar")


def test_a_shard_that_became_shorter_is_an_error_of_the_picture(tmp_path: Path) -> None:
    data = open_data(shard(tmp_path / "all.tar", samples(0, 20)))
    os.truncate(tmp_path / "all.tar", 600)
    with pytest.raises(OSError, match="became shorter"):
        data.train.picture(15)


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    shard(tmp_path / "train-0.tar", samples(0, 10))
    with pytest.raises(DataError, match=r"train-1.tar cannot be read \(No such file or directory\)"):
        open_data(f"{tmp_path}/train-{{0..1}}.tar")


@pytest.mark.parametrize("pattern", ["a-{5..1}.tar", "a-{0..1}-{0..1}.tar", "a-{x..y}.tar", "{0..99999999999999}.tar"])
def test_a_wrong_pattern_is_explained(pattern: str) -> None:
    with pytest.raises(UsageError, match=r"write one range|count upwards"):
        open_data(pattern)
