"""Archives of others: plain files come out, and forty kinds of harm do not."""

import gzip
import io
import os
import stat
import struct
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from patchwords.data.sources import archive as archives
from patchwords.data.sources import guard
from patchwords.data.sources.archive import unpack, walk
from patchwords.errors import DataError, ResourceError


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small bombs are enough."""
    monkeypatch.setattr(guard, "FREE", 4 << 20)


def header(name: str, size: int = 0, kind: bytes = tarfile.REGTYPE, link: str = "", **changes: object) -> bytes:
    member = tarfile.TarInfo(name)
    member.size, member.type, member.linkname = size, kind, link
    for key, value in changes.items():
        setattr(member, key, value)
    return member.tobuf(changes.get("format", tarfile.GNU_FORMAT))


def plain(name: str, content: bytes = b"x") -> bytes:
    return header(name, len(content)) + content.ljust(-len(content) % 512 + len(content), b"\0")


def tar(*members: bytes) -> bytes:
    return b"".join(members) + bytes(1024)


def signed(block: bytes, **fields: bytes) -> bytes:
    """A header with other fields, its checksum made right again."""
    places = {"size": (124, 12), "type": (156, 1), "name": (0, 100), "magic": (257, 8), "prefix": (345, 155)}
    data = bytearray(block[:512])
    for name, value in fields.items():
        start, length = places[name]
        data[start : start + length] = value.ljust(length, b"\0")
    data[148:156] = b" " * 8
    data[148:156] = b"%06o\0 " % sum(data)
    return bytes(data) + block[512:]


def pax(records: dict[str, str]) -> bytes:
    """An extended header that says these things of the next member."""
    text = b""
    for key, value in records.items():
        body = f" {key}={value}\n".encode()
        length = len(body) + len(str(len(body) + 3))
        text += f"{length}".encode() + body
    return header("PaxHeader", len(text), tarfile.XHDTYPE) + text.ljust(-len(text) % 512 + len(text), b"\0")


def zipped(*members: tuple[str, bytes], mode: int = 0, **options: int) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", options.get("compression", zipfile.ZIP_DEFLATED)) as archive:
        for name, content in members:
            info = zipfile.ZipInfo(name)
            info.external_attr = mode << 16
            info.compress_type = options.get("compression", zipfile.ZIP_DEFLATED)
            archive.writestr(info, content)
    return file.getvalue()


def locked() -> bytes:
    """A zip that says its member is encrypted."""
    content = bytearray(zipped(("a.jpg", b"x")))
    content[6] |= 1
    content[content.index(b"PK\x01\x02") + 8] |= 1
    return bytes(content)


NEGATIVE = struct.pack(">q", -512).rjust(12, b"\xff")
HUGE = b"\x80" + struct.pack(">q", 1 << 50).rjust(11, b"\0")
GOOD = plain("good.jpg")

HOSTILE: dict[str, Callable[[], bytes]] = {
    "up.tar": lambda: tar(plain("../evil.jpg")),
    "up-inside.tar": lambda: tar(plain("a/../../evil.jpg")),
    "up-only.tar": lambda: tar(plain("..")),
    "up-at-the-end.tar": lambda: tar(plain("a/..")),
    "root.tar": lambda: tar(plain("/tmp/evil.jpg")),
    "double-root.tar": lambda: tar(plain("//evil.jpg")),
    "drive.tar": lambda: tar(plain("C:/evil.jpg")),
    "backslash.tar": lambda: tar(plain("..\\evil.jpg")),
    "no-name.tar": lambda: tar(signed(plain("a"), name=b"./")),
    "long-part.tar": lambda: tar(plain("n" * 300)),
    "long-name.tar": lambda: tar(plain("/".join(["n" * 200] * 8)[1:])),
    "prefix.tar": lambda: tar(signed(plain("evil.jpg"), magic=b"ustar\x0000", prefix=b"../..")),
    "pax-name.tar": lambda: tar(pax({"path": "../evil.jpg"}), GOOD),
    "pax-nul.tar": lambda: tar(pax({"path": "a\0b"}), GOOD),
    "pax-size.tar": lambda: tar(pax({"size": "-512"}), GOOD, GOOD),
    "pax-word.tar": lambda: tar(pax({"size": "many"}), GOOD, pax({"path": "/x"}), GOOD),
    "link.tar": lambda: tar(header("a", kind=tarfile.SYMTYPE, link="/etc"), plain("a/evil.jpg")),
    "link-inside.tar": lambda: tar(header("a", kind=tarfile.SYMTYPE, link="b"), GOOD),
    "hard-link.tar": lambda: tar(header("a.jpg", kind=tarfile.LNKTYPE, link="/etc/passwd")),
    "device.tar": lambda: tar(header("a.jpg", kind=tarfile.CHRTYPE)),
    "block.tar": lambda: tar(header("a.jpg", kind=tarfile.BLKTYPE)),
    "pipe.tar": lambda: tar(header("a.jpg", kind=tarfile.FIFOTYPE)),
    "sparse.tar": lambda: tar(signed(plain("a.jpg"), type=tarfile.GNUTYPE_SPARSE)),
    "pax-sparse.tar": lambda: tar(pax({"GNU.sparse.map": "0,1", "GNU.sparse.size": "1"}), GOOD),
    "contiguous.tar": lambda: tar(signed(plain("a.jpg"), type=tarfile.CONTTYPE)),
    "twice.tar": lambda: tar(plain("a.jpg"), plain("a.jpg")),
    "twice-spelt.tar": lambda: tar(plain("a.jpg"), plain("./a.jpg")),
    "file-and-folder.tar": lambda: tar(plain("a"), plain("a/b.jpg")),
    "folder-and-file.tar": lambda: tar(plain("a/b.jpg"), plain("a")),
    "negative.tar": lambda: tar(signed(header("a.jpg"), size=NEGATIVE), GOOD),
    "negative-folder.tar": lambda: tar(GOOD, signed(header("d", kind=tarfile.DIRTYPE), size=NEGATIVE), GOOD),
    "negative-long-name.tar": lambda: tar(signed(header("a", kind=tarfile.GNUTYPE_LONGNAME), size=NEGATIVE), GOOD),
    "huge.tar": lambda: tar(signed(header("a.jpg"), size=HUGE)),
    "huge-long-name.tar": lambda: tar(signed(header("a", kind=tarfile.GNUTYPE_LONGNAME), size=HUGE)),
    "huge-pax.tar": lambda: tar(signed(header("a", kind=tarfile.XHDTYPE), size=HUGE)),
    "headers-for-headers.tar": lambda: tar(
        plain("x")[:0] + signed(plain("a"), type=tarfile.GNUTYPE_LONGNAME) * 5000, GOOD
    ),
    "short.tar": lambda: tar(plain("a.jpg", b"x" * 5000))[:3000],
    "damaged.tar": lambda: tar(GOOD, plain("b.jpg").replace(b"b.jpg", b"c.jpg"), GOOD),
    "no-archive.tar": lambda: b"x" * 2000,
    "empty.tar": lambda: b"",
    "up.tar.gz": lambda: gzip.compress(tar(plain("../evil.jpg"))),
    "link.tgz": lambda: gzip.compress(tar(header("a", kind=tarfile.SYMTYPE, link="/etc"))),
    "bomb.tar.gz": lambda: gzip.compress(tar(plain("a.jpg", bytes(12 << 20)))),
    "pax-bomb.tar.gz": lambda: gzip.compress(header("x", 6 << 20, tarfile.XHDTYPE) + bytes(6 << 20)),
    "short.tar.gz": lambda: gzip.compress(tar(plain("a.jpg", os.urandom(5000))))[:-500],
    "flipped.tar.gz": lambda: gzip.compress(tar(plain("a.jpg", b"abc" * 1000))).replace(b"\x00", b"\x01"),
    "wrong-sum.tar.gz": lambda: gzip.compress(tar(GOOD))[:-8] + bytes(8),
    "no-gzip.tar.gz": lambda: b"\x1f\x8b" + b"x" * 100,
    "up.zip": lambda: zipped(("../evil.jpg", b"x")),
    "root.zip": lambda: zipped(("/evil.jpg", b"x")),
    "backslash.zip": lambda: zipped(("a\\..\\..\\evil.jpg", b"x")),
    "link.zip": lambda: zipped(("a", b"/etc"), mode=stat.S_IFLNK | 0o777),
    "device.zip": lambda: zipped(("a", b""), mode=stat.S_IFCHR),
    "locked.zip": locked,
    "rare.zip": lambda: zipped(("a.jpg", b"x"), compression=zipfile.ZIP_BZIP2),
    "bomb.zip": lambda: zipped(("a.jpg", bytes(12 << 20))),
    "short.zip": lambda: zipped(("a.jpg", os.urandom(3000)))[:-100],
    "flipped.zip": lambda: zipped(("a.jpg", b"abcdefgh" * 99), compression=zipfile.ZIP_STORED).replace(
        b"cdef", b"cxef", 1
    ),
    "no-archive.zip": lambda: b"PK" + b"x" * 100,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_archive_is_refused_and_leaves_nothing_behind(tmp_path: Path, name: str) -> None:
    (tmp_path / "in").mkdir()
    path = tmp_path / "in" / name
    path.write_bytes(HOSTILE[name]())
    with pytest.raises(DataError) as caught:
        unpack([path], tmp_path / "out" / "set")
    assert name in str(caught.value)
    assert [file for file in tmp_path.rglob("*") if file.is_file() or file.is_symlink()] == [path]


def test_there_are_forty_of_them() -> None:
    assert len(HOSTILE) >= 40


@pytest.mark.parametrize("name", ["a.tar", "a.tar.gz", "a.tgz", "a.zip"])
def test_plain_files_come_out_whole(tmp_path: Path, name: str) -> None:
    big = os.urandom(3_000_000)
    files = [
        ("set/./a/1.jpg", b"one"),
        ("set/a/ü.jpg", b""),
        ("set/big.jpg", big),
        ("set/" + "n" * 150 + ".jpg", b"long"),
    ]
    content = tar(header("set", kind=tarfile.DIRTYPE), *(plain(*file) for file in files))
    packed = {"a.tar": content, "a.zip": zipped(*files)}.get(name, gzip.compress(content, 1))
    (tmp_path / name).write_bytes(packed)
    unpack([tmp_path / name], tmp_path / "out")
    assert {str(file.relative_to(tmp_path / "out")) for file in (tmp_path / "out").rglob("*") if file.is_file()} == {
        "set/a/1.jpg",
        "set/a/ü.jpg",
        "set/big.jpg",
        "set/" + "n" * 150 + ".jpg",
    }
    assert (tmp_path / "out" / "set" / "big.jpg").read_bytes() == big
    assert not list(tmp_path.glob(".*"))


def test_the_place_of_a_member_is_where_its_content_lies(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(tar(plain("1.jpg", b"one"), pax({"path": "ü" * 80}), plain("2.jpg", b"two")))
    content = (tmp_path / "a.tar").read_bytes()
    found = {member.name: content[member.offset : member.offset + member.size] for member in walk(tmp_path / "a.tar")}
    assert found == {"1.jpg": b"one", "ü" * 80: b"two"}


def test_several_archives_and_files_make_one_folder(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(tar(plain("jpg/1.jpg")))
    (tmp_path / "b.zip").write_bytes(zipped(("jpg/2.jpg", b"x")))
    (tmp_path / "labels.mat").write_bytes(b"x")
    unpack([tmp_path / "a.tar", tmp_path / "b.zip", tmp_path / "labels.mat"], tmp_path / "out")
    assert sorted(file.name for file in (tmp_path / "out").rglob("*.*")) == ["1.jpg", "2.jpg", "labels.mat"]


def test_an_archive_without_end_marks_is_read_to_its_end(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(plain("1.jpg") + plain("2.jpg"))
    assert [member.name for member in walk(tmp_path / "a.tar")] == ["1.jpg", "2.jpg"]


def test_too_many_members_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "MOST_MEMBERS", 10)
    (tmp_path / "a.tar").write_bytes(tar(*(plain(f"{number}.jpg") for number in range(11))))
    with pytest.raises(DataError, match="holds more than 10 files"):
        unpack([tmp_path / "a.tar"], tmp_path / "out")


def test_too_many_bytes_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "MOST_BYTES", 1000)
    (tmp_path / "a.tar").write_bytes(tar(plain("1.jpg", bytes(600)), plain("2.jpg", bytes(600))))
    with pytest.raises(DataError, match="or 1000 bytes"):
        unpack([tmp_path / "a.tar"], tmp_path / "out")


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(member: archives.Member) -> None:
        raise OSError(28, "No space left on device")

    (tmp_path / "a.tar").write_bytes(tar(GOOD))
    monkeypatch.setattr(archives.Member, "chunks", full)
    with pytest.raises(ResourceError, match=r"out cannot be written \(No space left on device\)"):
        unpack([tmp_path / "a.tar"], tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.tar"]


def test_a_folder_that_is_there_already_stays(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(tar(GOOD))
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.jpg").write_bytes(b"x")
    unpack([tmp_path / "a.tar"], tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["mine.jpg"]
