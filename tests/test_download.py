"""Weights come whole or not at all: resumed, checked, verified each time, and never over an open line."""

import hashlib
import io
import json
import multiprocessing
import re
import shutil
import socket
import threading
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from email.message import Message
from http.client import HTTPMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from patchwords import download
from patchwords.errors import ModelError, NetworkError, ResourceError, UsageError
from patchwords.weights import store
from patchwords.weights.zoo import HALF, ZOO, Entry

BODY = bytes(range(256)) * 40  # 10240 bytes
DIGEST = hashlib.sha256(BODY).hexdigest()
NAME = "test-weights"
FILE = "tiny.npz"
PAUSES = download.PAUSES


class Server(ThreadingHTTPServer):
    """A host of one file; a test turns its fields to make it misbehave."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.body = BODY
        self.etag = '"one"'
        self.type = "application/octet-stream"
        self.ranges = True
        self.length = True
        self.cuts: list[int] = []  # how many bytes each of the next answers gives before it breaks off
        self.errors: list[int] = []  # the status of each of the next answers
        self.redirect = ""
        self.wait: threading.Event | None = None
        self.seen: list[tuple[str, Message]] = []

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # a client that hangs up is part of the tests

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    @property
    def address(self) -> str:
        return f"{self.base}/{FILE}"

    @property
    def ranges_seen(self) -> list[str | None]:
        return [headers["Range"] for _, headers in self.seen]


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        host = self.server
        host.seen.append((self.path, self.headers))
        if host.wait:
            host.wait.wait(10)
        if host.errors:
            self.answer(host.errors.pop(0))
        elif host.redirect and self.path != "/moved":
            self.answer(302, {"Location": host.redirect})
        else:
            self.give()

    def give(self) -> None:
        host, start = self.server, 0
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers["Range"] or "")
        if asked and host.ranges and self.headers["If-Range"] == host.etag:
            start = int(asked[1])
        if start and start >= len(host.body):
            return self.answer(416, {"Content-Range": f"bytes */{len(host.body)}"})
        headers = {"Content-Type": host.type}
        if host.etag:
            headers["ETag"] = host.etag
        if host.length:
            headers["Content-Length"] = str(len(host.body) - start)
        if start:
            headers["Content-Range"] = f"bytes {start}-{len(host.body) - 1}/{len(host.body)}"
        body = host.body[start:]
        self.answer(206 if start else 200, headers, body[: host.cuts.pop(0)] if host.cuts else body)

    def answer(self, status: int, headers: dict[str, str] | None = None, body: bytes = b"") -> None:
        self.send_response(status)
        for name, value in (headers or {"Content-Length": "0"}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as host:
        thread = threading.Thread(target=host.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield host
        host.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def calm(monkeypatch: pytest.MonkeyPatch) -> None:
    """No pauses, no proxy, no setting of the person who runs the tests."""
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(download, "PAUSES", (0.0, 0.0, 0.0))
    for name in ("PATCHWORDS_CACHE", "PATCHWORDS_MIRROR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)


def entry(sha256: str = DIGEST[:8]) -> Entry:
    return Entry(
        name=NAME,
        model="ViT-B/16",
        address=f"https://weights.example/folder/{FILE}",
        mebibytes=1,
        sha256=sha256,
        classes=0,
        licence="Apache-2.0",
        source="a/test",
        preprocess=HALF,
    )


@pytest.fixture
def mirror(server: Server, monkeypatch: pytest.MonkeyPatch) -> str:
    """A zoo with one entry more, and the mirror setting that leads to the server."""
    monkeypatch.setitem(ZOO, NAME, entry())
    return f"weights.example={server.base}"


def beside(file: Path, suffix: str) -> Path:
    return file.with_name(f"{file.name}.{suffix}")


# A plain download


def test_the_file_arrives_with_its_record_and_nothing_half_done_stays(server: Server, tmp_path: Path) -> None:
    target = tmp_path / "deep" / FILE
    download.download(server.address, target, sha256=DIGEST)
    assert target.read_bytes() == BODY
    assert beside(target, "sha256").read_text() == f"# {len(BODY)} bytes\n{DIGEST}  {FILE}\n"
    assert {file.name for file in target.parent.iterdir()} == {FILE, f"{FILE}.sha256", f"{FILE}.lock"}


def test_progress_counts_up_to_the_total(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "CHUNK", 4096)
    calls: list[tuple[int, int]] = []
    download.download(server.address, tmp_path / FILE, progress=lambda done, total: calls.append((done, total)))
    assert calls == [(4096, 10240), (8192, 10240), (10240, 10240)]


def test_an_unknown_length_is_total_zero(server: Server, tmp_path: Path) -> None:
    server.length = False
    calls: list[tuple[int, int]] = []
    download.download(server.address, tmp_path / FILE, progress=lambda done, total: calls.append((done, total)))
    assert calls == [(10240, 0)]
    assert (tmp_path / FILE).read_bytes() == BODY


def test_a_target_that_is_there_is_left_alone(server: Server, tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"mine")
    download.download(server.address, tmp_path / FILE)
    assert (tmp_path / FILE).read_bytes() == b"mine"
    assert server.seen == []


# Resuming


def test_a_broken_line_is_taken_up_at_the_byte_where_it_stopped(server: Server, tmp_path: Path) -> None:
    server.cuts = [1000, 2000]
    download.download(server.address, tmp_path / FILE, sha256=DIGEST)
    assert server.ranges_seen == [None, "bytes=1000-", "bytes=3000-"]
    assert server.seen[1][1]["If-Range"] == '"one"'
    assert (tmp_path / FILE).read_bytes() == BODY


def test_after_three_retries_it_gives_up_and_the_next_run_goes_on(server: Server, tmp_path: Path) -> None:
    server.cuts = [1000] * 4
    with pytest.raises(NetworkError, match=r"4000 of 10240 bytes.*PATCHWORDS_MIRROR") as caught:
        download.download(server.address, tmp_path / FILE)
    assert server.address in str(caught.value)
    assert len(server.seen) == 4
    assert beside(tmp_path / FILE, "part").stat().st_size == 4000
    assert not (tmp_path / FILE).exists()
    calls: list[tuple[int, int]] = []
    download.download(server.address, tmp_path / FILE, progress=lambda done, total: calls.append((done, total)))
    assert server.ranges_seen[-1] == "bytes=4000-"
    assert calls == [(10240, 10240)]
    assert (tmp_path / FILE).read_bytes() == BODY


def test_a_server_that_ignores_ranges_is_read_from_the_start(server: Server, tmp_path: Path) -> None:
    server.ranges, server.cuts = False, [1000]
    download.download(server.address, tmp_path / FILE)
    assert server.ranges_seen == [None, "bytes=1000-"]
    assert (tmp_path / FILE).read_bytes() == BODY


def leave_part(server: Server, target: Path, size: int) -> None:
    """A part file as a process leaves that was killed after `size` bytes."""
    beside(target, "part").write_bytes(BODY[:size])
    beside(target, "part.json").write_text(json.dumps({"address": server.address, "validator": server.etag}))


def test_a_changed_file_is_not_mixed_with_the_old_one(server: Server, tmp_path: Path) -> None:
    leave_part(server, tmp_path / FILE, 5000)
    server.body, server.etag = BODY[3000::-1], '"two"'
    download.download(server.address, tmp_path / FILE)
    assert server.ranges_seen == ["bytes=5000-"]
    assert (tmp_path / FILE).read_bytes() == server.body


def test_a_part_that_was_whole_is_finished_on_416(server: Server, tmp_path: Path) -> None:
    leave_part(server, tmp_path / FILE, len(BODY))
    download.download(server.address, tmp_path / FILE, sha256=DIGEST)
    assert server.ranges_seen == ["bytes=10240-"]
    assert (tmp_path / FILE).read_bytes() == BODY


def test_a_part_longer_than_the_file_is_thrown_away_on_416(server: Server, tmp_path: Path) -> None:
    leave_part(server, tmp_path / FILE, len(BODY))
    server.body = BODY[:9000]
    download.download(server.address, tmp_path / FILE)
    assert server.ranges_seen == ["bytes=10240-", None]
    assert (tmp_path / FILE).read_bytes() == BODY[:9000]


@pytest.mark.parametrize("note", ["", "{", "[]", '{"address": "https://other.example/tiny.npz", "validator": "1"}'])
def test_a_part_without_a_usable_note_is_begun_again(server: Server, tmp_path: Path, note: str) -> None:
    leave_part(server, tmp_path / FILE, 5000)
    beside(tmp_path / FILE, "part.json").write_text(note)
    download.download(server.address, tmp_path / FILE, sha256=DIGEST)
    assert server.ranges_seen == [None]


@pytest.mark.parametrize("etag", ["", 'W/"one"'])
def test_without_a_strong_validator_nothing_is_resumed(server: Server, tmp_path: Path, etag: str) -> None:
    server.etag, server.cuts = etag, [1000]
    download.download(server.address, tmp_path / FILE, sha256=DIGEST)
    assert server.ranges_seen == [None, None]


# What the network can do wrong


def test_wrong_content_is_deleted_and_both_checksums_are_named(server: Server, tmp_path: Path) -> None:
    server.body = BODY[:-1] + b"!"
    wrong = hashlib.sha256(server.body).hexdigest()
    with pytest.raises(NetworkError, match=wrong) as caught:
        download.download(server.address, tmp_path / FILE, sha256=DIGEST)
    assert DIGEST in str(caught.value)
    assert not (tmp_path / FILE).exists()
    assert not beside(tmp_path / FILE, "part").exists()


@pytest.mark.parametrize("length", [8, 64])
def test_a_prefix_of_the_checksum_is_enough_to_refuse(server: Server, tmp_path: Path, length: int) -> None:
    download.download(server.address, tmp_path / FILE, sha256=DIGEST[:length])
    with pytest.raises(NetworkError, match="SHA-256"):
        download.download(server.address, tmp_path / "other.npz", sha256="0" * length)


def test_a_missing_file_is_said_at_once(server: Server, tmp_path: Path) -> None:
    server.errors = [404] * 4
    with pytest.raises(NetworkError, match=r"answers 404 Not Found.*mirror.*by hand.*offline") as caught:
        download.download(server.address, tmp_path / FILE)
    assert str(caught.value).startswith(server.address)
    assert str(tmp_path / FILE) in str(caught.value)
    assert caught.value.exit_code == 7
    assert len(server.seen) == 1


def test_a_busy_server_is_asked_again(server: Server, tmp_path: Path) -> None:
    server.errors = [503, 429]
    download.download(server.address, tmp_path / FILE)
    assert len(server.seen) == 3
    server.errors = [500] * 4
    with pytest.raises(NetworkError, match="status 500"):
        download.download(server.address, tmp_path / "other.npz")


def test_pauses_grow(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(download, "PAUSES", PAUSES)
    monkeypatch.setattr(time, "sleep", pauses.append)
    server.errors = [503] * 3
    download.download(server.address, tmp_path / FILE)
    assert len(pauses) == 3
    assert pauses == sorted(set(pauses))
    assert sum(pauses) < 10


def test_a_silent_server_times_out(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "TIMEOUT", 0.05)
    server.wait = threading.Event()
    with pytest.raises(NetworkError, match="timed out"):
        download.download(server.address, tmp_path / FILE)
    server.wait.set()


def test_nobody_listening_is_a_network_error(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}/{FILE}"
        with pytest.raises(NetworkError, match="refused"):
            download.download(address, tmp_path / FILE)


def test_a_web_page_is_not_taken_for_weights(server: Server, tmp_path: Path) -> None:
    server.type = "text/html; charset=utf-8"
    with pytest.raises(NetworkError, match="web page"):
        download.download(server.address, tmp_path / FILE)
    assert not (tmp_path / FILE).exists()


# Open lines


@pytest.mark.parametrize(
    "address", ["http://weights.example/a.npz", "ftp://localhost/a", "file:///etc/passwd", "a.npz"]
)
def test_only_https_or_this_machine(tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    no_sockets(monkeypatch)
    with pytest.raises(UsageError, match="is not https"):
        download.download(address, tmp_path / FILE)


def test_a_host_that_only_looks_like_this_machine_is_refused(tmp_path: Path) -> None:
    for address in ("http://localhost@evil.example/a", "http://127.0.0.1.evil.example/a"):
        with pytest.raises(UsageError, match="is not https"):
            download.download(address, tmp_path / FILE)


def test_a_redirect_is_followed(server: Server, tmp_path: Path) -> None:
    server.redirect, server.cuts = f"{server.base}/moved", [1000]
    download.download(server.address, tmp_path / FILE, sha256=DIGEST)
    assert [path for path, _ in server.seen] == [f"/{FILE}", "/moved"] * 2
    assert server.ranges_seen[-1] == "bytes=1000-"


def test_a_redirect_to_an_open_line_is_refused(server: Server, tmp_path: Path) -> None:
    server.redirect = "http://weights.example/a.npz"
    with pytest.raises(NetworkError, match=r"redirects to http://weights\.example/a\.npz, which is not https"):
        download.download(server.address, tmp_path / FILE)


def test_https_is_never_left_even_for_this_machine() -> None:
    request = urllib.request.Request("https://weights.example/a.npz")
    follow = download._Redirects().redirect_request
    with pytest.raises(NetworkError, match="not https"):
        follow(request, io.BytesIO(), 302, "Found", HTTPMessage(), "http://127.0.0.1/a.npz")
    followed = follow(request, io.BytesIO(), 302, "Found", HTTPMessage(), "https://other.example/a.npz")
    assert followed is not None
    assert followed.full_url == "https://other.example/a.npz"


# The disk


def test_too_little_room_is_found_before_the_first_byte(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(20000, 9761, 10239))
    with pytest.raises(ResourceError, match=r"No space left.*10240 bytes.*PATCHWORDS_CACHE") as caught:
        download.download(server.address, tmp_path / FILE)
    assert str(tmp_path / FILE) in str(caught.value)
    assert caught.value.exit_code == 5
    assert beside(tmp_path / FILE, "part").stat().st_size == 0


def test_a_resumed_file_needs_room_for_its_rest_only(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_part(server, tmp_path / FILE, 10000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(20000, 19760, 240))
    download.download(server.address, tmp_path / FILE, sha256=DIGEST)
    assert (tmp_path / FILE).read_bytes() == BODY


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_disk_that_fills_up_on_the_way_is_a_resource_error(server: Server, tmp_path: Path) -> None:
    beside(tmp_path / FILE, "part").symlink_to("/dev/full")
    with pytest.raises(ResourceError, match=r"tiny\.npz\.part cannot be written \(No space left.*10240 bytes"):
        download.download(server.address, tmp_path / FILE)
    assert not (tmp_path / FILE).exists()


def test_a_cache_that_is_no_folder_is_a_resource_error(server: Server, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(ResourceError, match="cannot be written"):
        download.download(server.address, tmp_path / "file" / FILE)


# Two at once


def let_all_come(server: Server) -> None:
    """Holds the first answer back until the others have had time to ask too."""
    assert server.wait
    while not server.seen:
        time.sleep(0.01)
    time.sleep(0.2)
    server.wait.set()


def test_threads_at_once_download_once(server: Server, tmp_path: Path) -> None:
    server.wait = threading.Event()
    with ThreadPoolExecutor(4) as pool:
        jobs = [pool.submit(download.download, server.address, tmp_path / FILE, sha256=DIGEST) for _ in range(4)]
        let_all_come(server)
        for job in jobs:
            job.result()
    assert len(server.seen) == 1
    assert (tmp_path / FILE).read_bytes() == BODY


def test_processes_at_once_download_once(server: Server, tmp_path: Path) -> None:
    server.wait = threading.Event()
    context = multiprocessing.get_context("spawn")
    jobs = [context.Process(target=download.download, args=(server.address, tmp_path / FILE)) for _ in range(2)]
    for job in jobs:
        job.start()
    let_all_come(server)
    for job in jobs:
        job.join(30)
    assert [job.exitcode for job in jobs] == [0, 0]
    assert len(server.seen) == 1
    assert (tmp_path / FILE).read_bytes() == BODY


# The cache


def test_fetch_puts_the_file_in_the_cache_once(server: Server, mirror: str, tmp_path: Path) -> None:
    file = store.fetch(NAME, mirror=mirror, cache=tmp_path)
    assert file == tmp_path / "weights" / NAME / FILE
    assert file.read_bytes() == BODY
    assert store.fetch(NAME, mirror=mirror, cache=tmp_path) == file
    assert [path for path, _ in server.seen] == [f"/folder/{FILE}"]


def test_where_the_cache_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rest = Path("weights") / NAME / FILE
    monkeypatch.setenv("HOME", str(tmp_path))
    assert store.location(entry()) == tmp_path / ".cache" / "patchwords" / rest
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert store.location(entry()) == tmp_path / "xdg" / "patchwords" / rest
    monkeypatch.setenv("PATCHWORDS_CACHE", "~/own")
    assert store.location(entry()) == tmp_path / "own" / rest
    assert store.location(entry(), tmp_path / "given") == tmp_path / "given" / rest


def test_a_wrong_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"'augreg-b16-i21' .*did you mean augreg-b16-i21k") as caught:
        store.fetch("augreg-b16-i21")
    assert caught.value.exit_code == 2


def test_every_flipped_bit_in_a_cached_file_is_noticed(server: Server, mirror: str, tmp_path: Path) -> None:
    file = store.fetch(NAME, mirror=mirror, cache=tmp_path)
    for bit in range(0, 8 * len(BODY), 4099):
        damaged = bytearray(BODY)
        damaged[bit // 8] ^= 1 << bit % 8
        file.write_bytes(damaged)
        with pytest.raises(ModelError, match="delete both files, and fetch it again") as caught:
            store.fetch(NAME, mirror=mirror, cache=tmp_path, offline=True)
    assert str(file) in str(caught.value)
    assert caught.value.exit_code == 4
    file.write_bytes(BODY)
    assert store.fetch(NAME, mirror=mirror, cache=tmp_path) == file


@pytest.mark.parametrize("damage", [BODY[:-1], b"", BODY + b"\0"])
def test_a_wrong_size_is_noticed_without_a_published_checksum(
    server: Server, mirror: str, tmp_path: Path, damage: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ZOO, NAME, entry(sha256=""))
    store.fetch(NAME, mirror=mirror, cache=tmp_path).write_bytes(damage)
    with pytest.raises(ModelError, match="is damaged or another file"):
        store.fetch(NAME, cache=tmp_path)


def test_a_damaged_record_is_noticed(server: Server, mirror: str, tmp_path: Path) -> None:
    file = store.fetch(NAME, mirror=mirror, cache=tmp_path)
    for record in (b"", b"\xff" * 90, beside(file, "sha256").read_bytes().replace(b"10240", b"10241")):
        beside(file, "sha256").write_bytes(record)
        with pytest.raises(ModelError, match=r"tiny\.npz\.sha256"):
            store.fetch(NAME, cache=tmp_path)


def test_a_file_put_there_by_hand_is_checked_and_recorded(mirror: str, tmp_path: Path) -> None:
    file = store.location(ZOO[NAME], tmp_path)
    file.parent.mkdir(parents=True)
    file.write_bytes(b"something else")
    with pytest.raises(ModelError, match=hashlib.sha256(b"something else").hexdigest()):
        store.fetch(NAME, cache=tmp_path, offline=True)
    file.write_bytes(BODY)
    assert store.fetch(NAME, cache=tmp_path, offline=True) == file
    assert DIGEST in beside(file, "sha256").read_text()


# Offline


def no_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **options: Any) -> Any:
        raise AssertionError("a socket was asked for")

    for name in ("socket", "create_connection", "getaddrinfo"):
        monkeypatch.setattr(socket, name, refuse)


def test_the_guard_against_sockets_would_notice_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    no_sockets(monkeypatch)
    with pytest.raises(AssertionError, match="a socket was asked for"):
        store.fetch("deit-b16", cache=tmp_path)


def test_offline_asks_for_no_socket_and_says_where_it_looked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    no_sockets(monkeypatch)
    with pytest.raises(NetworkError, match="offline") as caught:
        store.fetch("deit-b16", cache=tmp_path, offline=True)
    assert str(tmp_path / "weights" / "deit-b16" / "deit_base_patch16_224-b5f2ef4d.pth") in str(caught.value)
    assert ZOO["deit-b16"].address in str(caught.value)
    assert caught.value.exit_code == 7
    assert list(tmp_path.iterdir()) == []


def test_the_environment_can_forbid_the_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    no_sockets(monkeypatch)
    monkeypatch.setenv("PATCHWORDS_OFFLINE", "1")
    with pytest.raises(NetworkError, match="nothing is downloaded offline"):
        store.fetch("vit-b16-i21k", cache=tmp_path)


def test_offline_gives_what_is_there(mirror: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = store.fetch(NAME, mirror=mirror, cache=tmp_path)
    no_sockets(monkeypatch)
    assert store.fetch(NAME, cache=tmp_path, offline=True) == file


# Mirrors


def test_a_mirror_replaces_its_host_and_no_other() -> None:
    address = "https://huggingface.co/google/vit/resolve/main/model.safetensors"
    setting = "example.com=https://other.example, huggingface.co=https://hf-mirror.com/copy/"
    assert download.mirrored(address, setting) == "https://hf-mirror.com/copy/google/vit/resolve/main/model.safetensors"
    assert download.mirrored(address, "example.com=https://other.example") == address
    assert download.mirrored(address, "") == address
    assert download.mirrored("https://a.example/x", "a.example=http://[::1]:80") == "http://[::1]:80/x"


def test_the_mirror_of_the_environment_is_used_and_the_argument_wins(
    server: Server, mirror: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATCHWORDS_MIRROR", f"weights.example={server.base}/environment")
    store.fetch(NAME, cache=tmp_path / "one")
    store.fetch(NAME, cache=tmp_path / "two", mirror=f"weights.example={server.base}/argument")
    assert [path for path, _ in server.seen] == [f"/environment/folder/{FILE}", f"/argument/folder/{FILE}"]


@pytest.mark.parametrize(
    "setting", ["hf-mirror.com", "=https://a.example", "a=b", "a=https://", "a=https://[", "a=https://b?c"]
)
def test_a_malformed_mirror_is_answered_with_the_form(setting: str) -> None:
    with pytest.raises(UsageError, match=r"is not host=base-url: .*huggingface\.co=https://hf-mirror\.com"):
        download.mirrored("https://huggingface.co/x", setting)


def test_a_mirror_must_be_https(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"http://hf-mirror\.com is not https"):
        download.mirrored("https://huggingface.co/x", "huggingface.co=http://hf-mirror.com")
