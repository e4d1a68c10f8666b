"""Public data sets are brought once, checked, and read from the cache; here from a server on this machine."""

import gzip
import hashlib
import io
import socket
import struct
import tarfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from patchwords import download
from patchwords.data.sources import named
from patchwords.data.sources.door import open_data
from patchwords.data.sources.public import PUBLIC
from patchwords.errors import DataError, NetworkError

LABELS = np.arange(20) % 2


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def published(tmp_path: Path) -> Iterator[Path]:
    """A folder that is served, and the address that replaces the publishers'."""
    folder = tmp_path / "published"
    folder.mkdir()
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder)) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        (folder / "address").write_text(f"http://127.0.0.1:{server.server_address[1]}")
        yield folder
        server.shutdown()


@pytest.fixture(autouse=True)
def calm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(download, "PAUSES", ())
    for name in ("PATCHWORDS_OFFLINE", "PATCHWORDS_MIRROR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATCHWORDS_CACHE", str(tmp_path / "cache"))


def publish(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, files: dict[str, bytes]) -> None:
    """Puts small files in the place of a public data set's."""
    assert files.keys() == PUBLIC[name].files.keys()
    for file, content in files.items():
        (folder / file).write_bytes(content)
    hashes = {file: hashlib.sha256(content).hexdigest() for file, content in files.items()}
    changed = replace(PUBLIC[name], address=(folder / "address").read_text(), files=hashes)
    monkeypatch.setitem(PUBLIC, name, changed)


def packed(files: dict[str, bytes]) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w:gz") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return target.getvalue()


def idx(array: np.ndarray) -> bytes:
    return gzip.compress(struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes())


def mnist() -> dict[str, bytes]:
    images, labels = np.zeros((20, 4, 4), np.uint8), LABELS.astype(np.uint8)
    return {
        "train-images-idx3-ubyte.gz": idx(images),
        "train-labels-idx1-ubyte.gz": idx(labels),
        "t10k-images-idx3-ubyte.gz": idx(images[:4]),
        "t10k-labels-idx1-ubyte.gz": idx(labels[:4]),
    }


def cifar(rows: np.ndarray, name: str) -> bytes:
    batches = {f"{name}/data_batch_{number}.bin": rows.tobytes() for number in range(1, 6)}
    return packed({**batches, f"{name}/test_batch.bin": rows.tobytes(), f"{name}/batches.meta.txt": b"a\nb\n"})


def flowers() -> bytes:
    return packed({f"flower_photos/{name}/{number}.jpg": b"x" for name in ("rose", "tulip") for number in range(10)})


def test_files_without_archives_are_read_where_they_lie(published, monkeypatch, tmp_path: Path) -> None:
    publish(published, monkeypatch, "fashion-mnist", mnist())
    data = open_data("fashion-mnist")
    assert (data.name, data.classes[-1], data.channels) == ("fashion-mnist", "Ankle boot", 1)
    assert {split: len(source) for split, source in data.splits.items()} == {"train": 16, "val": 4, "test": 4}
    assert (tmp_path / "cache" / "data" / "fashion-mnist" / "train-images-idx3-ubyte.gz").is_file()


def test_an_archive_is_unpacked_once(published, monkeypatch, tmp_path: Path) -> None:
    rows = np.zeros((4, 3073), np.uint8)
    rows[::2, 0] = 1
    publish(published, monkeypatch, "cifar10", {"cifar-10-binary.tar.gz": cifar(rows, "cifar-10-batches-bin")})
    data = open_data("cifar10")
    assert (data.name, data.classes) == ("cifar10", ("a", "b"))
    assert {split: len(source) for split, source in data.splits.items()} == {"train": 16, "val": 4, "test": 4}
    (tmp_path / "cache" / "data" / "cifar10" / "cifar-10-binary.tar.gz").unlink()
    monkeypatch.setattr(socket.socket, "connect", refuse)
    assert open_data("cifar10", offline=True).digest() == data.digest()


def test_a_folder_inside_an_archive_is_found(published, monkeypatch) -> None:
    publish(published, monkeypatch, "flower_photos", {"flower_photos.tgz": flowers()})
    data = open_data("flower_photos")
    assert (data.name, data.classes, len(data.val)) == ("flower_photos", ("rose", "tulip"), 4)
    assert data.train.name(0).startswith("rose/")


def test_two_archives_make_one_folder(published, monkeypatch) -> None:
    lines = "".join(
        f"{name}_{number} {label} 1 1\n" for label, name in ((1, "Beagle"), (2, "Birman")) for number in range(5)
    )
    pictures = {f"images/{name}_{number}.jpg": b"x" for name in ("Beagle", "Birman") for number in range(5)}
    lists = {"annotations/trainval.txt": lines.encode(), "annotations/test.txt": lines.encode()}
    publish(published, monkeypatch, "pets", {"images.tar.gz": packed(pictures), "annotations.tar.gz": packed(lists)})
    data = open_data("pets")
    assert data.classes == ("Beagle", "Birman")
    assert {split: len(source) for split, source in data.splits.items()} == {"train": 8, "val": 2, "test": 10}


def test_an_archive_and_files_make_one_folder(published, monkeypatch) -> None:
    from scipy.io import savemat

    labels, parts = io.BytesIO(), io.BytesIO()
    savemat(labels, {"labels": [[1, 2, 1, 2]]})
    savemat(parts, {"trnid": [[1, 2]], "valid": [[3]], "tstid": [[4]]})
    pictures = packed({f"jpg/image_{number:05}.jpg": b"x" for number in range(1, 5)})
    files = {"102flowers.tgz": pictures, "imagelabels.mat": labels.getvalue(), "setid.mat": parts.getvalue()}
    publish(published, monkeypatch, "flowers102", files)
    assert [len(source) for source in open_data("flowers102").splits.values()] == [2, 1, 1]


def test_progress_is_told(published, monkeypatch) -> None:
    publish(published, monkeypatch, "flower_photos", {"flower_photos.tgz": flowers()})
    told: list[tuple[int, int]] = []
    open_data("flower_photos", progress=lambda done, total: told.append((done, total)))
    assert told[-1] == (len(flowers()), len(flowers())) or told[-1][0] == told[-1][1] > 0


def test_another_file_than_was_published_is_refused(published, monkeypatch, tmp_path: Path) -> None:
    publish(published, monkeypatch, "flower_photos", {"flower_photos.tgz": flowers()})
    (published / "flower_photos.tgz").write_bytes(b"something else")
    with pytest.raises(NetworkError, match="as published; deleted"):
        open_data("flower_photos")
    assert not list((tmp_path / "cache").rglob("*.jpg"))


def test_a_file_that_rots_in_the_cache_is_noticed(published, monkeypatch, tmp_path: Path) -> None:
    publish(published, monkeypatch, "mnist", mnist())
    open_data("mnist")
    path = tmp_path / "cache" / "data" / "mnist" / "t10k-labels-idx1-ubyte.gz"
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    with pytest.raises(DataError, match="is damaged or another file"):
        open_data("mnist")


def test_a_file_put_there_by_hand_is_taken(published, monkeypatch, tmp_path: Path) -> None:
    publish(published, monkeypatch, "flower_photos", {"flower_photos.tgz": flowers()})
    place = tmp_path / "elsewhere" / "data" / "flower_photos"
    place.mkdir(parents=True)
    (place / "flower_photos.tgz").write_bytes((published / "flower_photos.tgz").read_bytes())
    assert len(open_data("flower_photos", offline=True, cache=tmp_path / "elsewhere").train) == 16


def test_a_mirror_is_asked_instead(published, monkeypatch) -> None:
    publish(published, monkeypatch, "flower_photos", {"flower_photos.tgz": flowers()})
    here = PUBLIC["flower_photos"].address
    monkeypatch.setitem(PUBLIC, "flower_photos", replace(PUBLIC["flower_photos"], address="https://nowhere.invalid"))
    assert len(open_data("flower_photos", mirror=f"nowhere.invalid={here}").val) == 4


def refuse(*_: object) -> None:
    raise AssertionError("a socket was opened")


@pytest.mark.parametrize("name", PUBLIC)
def test_offline_says_where_to_put_the_file(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(socket.socket, "connect", refuse)
    first = next(iter(PUBLIC[name].files))
    place = tmp_path / "cache" / "data" / name / first
    with pytest.raises(NetworkError, match=f"{name} is not at {place} and nothing is downloaded offline") as caught:
        open_data(name, offline=True)
    assert f"{PUBLIC[name].address}/{first}" in str(caught.value)
    monkeypatch.setenv("PATCHWORDS_OFFLINE", "1")
    with pytest.raises(NetworkError, match="nothing is downloaded offline"):
        open_data(name)


def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("PATCHWORDS_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert named.location("mnist") == tmp_path / "patchwords" / "data" / "mnist"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert named.location("mnist") == tmp_path / ".cache" / "patchwords" / "data" / "mnist"


@pytest.mark.parametrize("name", PUBLIC)
def test_every_address_is_safe_and_every_checksum_whole(name: str) -> None:
    assert PUBLIC[name].address.startswith("https://")
    assert not PUBLIC[name].address.endswith("/")
    for file, sha256 in PUBLIC[name].files.items():
        assert "/" not in file
        assert len(bytes.fromhex(sha256)) == 32
