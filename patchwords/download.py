"""A download that resumes, checks, and never leaves half a file; published weights and data sets come through it."""

import errno
import hashlib
import json
import os
import re
import shutil
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPException, HTTPMessage, HTTPResponse
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

from patchwords.errors import ModelError, NetworkError, ResourceError, UsageError

TIMEOUT = 30.0  # seconds without a byte
PAUSES = (0.5, 1.0, 2.0)  # seconds before each further attempt
CHUNK = 1 << 20
PAIR = re.compile(r"([\w.-]+)=(https?://(?:[\w.-]+|\[::1\])(?::\d+)?(?:/[^\s?#]*)?)")  # host=base-url

Progress = Callable[[int, int], None]  # bytes so far, and in all (0 where the server does not say)


def download(
    address: str, target: Path, *, sha256: str = "", token: str = "", progress: Progress | None = None
) -> None:
    """Brings a file to the target, going on where an earlier try stopped; a target that is there stays.

    A token says who asks, to this address alone and not to where it redirects.
    """
    _secure(address)
    with _writing(target), _lock(target):
        if target.exists():
            return  # another process was faster
        for pause in (*PAUSES, None):
            try:
                _transfer(address, target, token, progress)
                break
            except _TransferError as error:
                if pause is None:
                    raise NetworkError(f"{address} failed repeatedly ({error}): {_advice(target)}") from error
                time.sleep(pause)
        _finish(address, target, sha256)


def verify(file: Path, sha256: str = "") -> None:
    """Raises unless a cached file is what was recorded when it came and, where that is known, what was published."""
    digest, record = _digest(file), _beside(file, "sha256")
    line = _line(file.name, file.stat().st_size, digest)
    if not digest.startswith(sha256) or (record.exists() and record.read_bytes() != line):
        raise ModelError(
            f"{file} is damaged or another file: its SHA-256 is {digest}, which is not what {record.name} "
            "or the publisher says; delete both files, and fetch it again"
        )
    if not record.exists():  # put there by hand
        with _writing(record):
            _record(file, line)


def cache_root(given: Path | None = None) -> Path:
    """The folder of what is kept between runs: the given one, else PATCHWORDS_CACHE, else one among the user's."""
    caches = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return (given or Path(os.environ.get("PATCHWORDS_CACHE") or f"{caches}/patchwords")).expanduser()


def mirrored(address: str, mirror: str) -> str:
    """The address on the mirror that `mirror` names for its host, if any."""
    parts = urlsplit(address)
    return bases(mirror).get(parts.hostname or "", f"{parts.scheme}://{parts.netloc}").rstrip("/") + parts.path


def bases(mirror: str) -> dict[str, str]:
    """What host=base-url pairs with commas between say: the address of the mirror of each host."""
    found = {}
    for pair in filter(None, mirror.split(",")):
        if not (said := PAIR.fullmatch(pair.strip())):
            raise UsageError(
                f"mirror {pair.strip()!r} is not host=base-url: write for example "
                "huggingface.co=https://hf-mirror.com, several with commas between"
            )
        found[said[1]] = _secure(said[2])
    return found


class _TransferError(Exception):
    """The network failed in a way that another attempt may mend."""


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects, but none that leaves https."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> urllib.request.Request | None:
        if not _is_secure(newurl) or (req.type == "https" and urlsplit(newurl).scheme != "https"):
            fp.close()
            raise NetworkError(f"{req.full_url} redirects to {newurl}, which is not https: refused; name a mirror")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _is_secure(address: str) -> bool:
    parts = urlsplit(address)
    return parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in ("localhost", "127.0.0.1", "::1"))


def _secure(address: str) -> str:
    if not _is_secure(address):
        raise UsageError(f"{address} is not https: plain http is allowed for localhost, 127.0.0.1 and ::1 only")
    return address


def _transfer(address: str, target: Path, token: str, progress: Progress | None) -> None:
    """Adds to the part file what it lacks."""
    if not (response := _ask(address, target, token)):
        return
    part = _beside(target, "part")
    with response:
        start, total = _extent(response, part)
        needed = max(total - start, 0)
        with _writing(part, needed), part.open("r+b" if start else "wb") as file:
            if shutil.disk_usage(part.parent).free < needed:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            if not start:
                _note(address, part, response)
            done = file.seek(start)
            for chunk in _chunks(response):
                done += file.write(chunk)
                if progress:
                    progress(done, total)
    if done < total:
        raise _TransferError(f"{done} of {total} bytes")


def _ask(address: str, target: Path, token: str) -> HTTPResponse | None:
    """The server's answer to a request for what the part file lacks, or nothing if it says that nothing is lacking."""
    part = _beside(target, "part")
    size, validator = _begun(address, part)
    resume = {"Range": f"bytes={size}-", "If-Range": validator} if size else {}
    request = urllib.request.Request(address, headers={"User-Agent": "patchwords", **resume})
    if token:
        request.add_unredirected_header("Authorization", f"Bearer {token}")
    try:
        response: HTTPResponse = urllib.request.build_opener(_Redirects).open(request, timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        with error:
            if error.code == 416 and error.headers["Content-Range"] == f"bytes */{size}":
                return None
            if error.code == 416:
                part.unlink(missing_ok=True)
            if error.code in (416, 429) or error.code >= 500:
                raise _TransferError(f"status {error.code} {error.reason}") from error
            raise NetworkError(f"{address} answers {error.code} {error.reason}: {_advice(target)}") from error
    except (OSError, HTTPException) as error:
        raise _TransferError(str(error)) from error
    if response.headers.get_content_type() == "text/html":
        response.close()
        raise NetworkError(f"{address} answers with a web page, not with weights: {_advice(target)}")
    return response


def _note(address: str, part: Path, response: HTTPResponse) -> None:
    """Notes what a part is begun from; a weak ETag does not promise the same bytes, so it does not count."""
    etag = response.headers.get("ETag", "")
    validator = etag if etag.startswith('"') else response.headers.get("Last-Modified", "")
    _beside(part, "json").write_text(json.dumps({"address": address, "validator": validator}), "utf-8")


def _begun(address: str, part: Path) -> tuple[int, str]:
    """How many bytes of this address are here, and what shows that it still has the same file; nothing if unsure."""
    try:
        note = json.loads(_beside(part, "json").read_text("utf-8"))
        known = note["address"] == address and note["validator"]
        return (part.stat().st_size, note["validator"]) if known else (0, "")
    except (OSError, ValueError, KeyError, TypeError):
        return 0, ""


def _extent(response: HTTPResponse, part: Path) -> tuple[int, int]:
    """The first byte of an answer, and the length of the whole file."""
    if response.status != 206:
        length = response.headers.get("Content-Length", "")
        return 0, int(length) if length.isdecimal() else 0
    found = re.fullmatch(r"bytes (\d+)-\d+/(\d+)", response.headers.get("Content-Range", ""))
    if not found or int(found[1]) != part.stat().st_size:
        part.unlink()
        raise _TransferError("another range than was asked for")
    return int(found[1]), int(found[2])


def _chunks(response: HTTPResponse) -> Iterator[bytes]:
    try:
        while chunk := response.read(CHUNK):
            yield chunk
    except (OSError, HTTPException) as error:
        raise _TransferError(str(error)) from error


def _finish(address: str, target: Path, sha256: str) -> None:
    """Checks the whole file, then gives it its name; the record comes first, so that no file is ever without one."""
    part = _beside(target, "part")
    digest = _digest(part)
    if not digest.startswith(sha256):
        part.unlink()
        raise NetworkError(f"{address} has SHA-256 {digest}, not {sha256}… as published; deleted: {_advice(target)}")
    with part.open("r+b") as file:
        os.fsync(file.fileno())
    _record(target, _line(target.name, part.stat().st_size, digest))
    os.replace(part, target)
    _beside(part, "json").unlink(missing_ok=True)


def _line(name: str, size: int, digest: str) -> bytes:
    """What is recorded of a file, in the form that `sha256sum --check` reads."""
    return f"# {size} bytes\n{digest}  {name}\n".encode()


def _record(file: Path, line: bytes) -> None:
    new = _beside(file, "sha256.new")
    with new.open("wb") as record:
        record.write(line)
        record.flush()
        os.fsync(record.fileno())
    os.replace(new, _beside(file, "sha256"))


def _digest(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _beside(file: Path, suffix: str) -> Path:
    return file.with_name(f"{file.name}.{suffix}")


@contextmanager
def _lock(target: Path) -> Iterator[None]:
    """Lets one process at a time work on a target; the system frees the lock of a process that dies."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with _beside(target, "lock").open("ab") as file:
        if sys.platform != "win32":  # it has no flock: two downloads of one file at once are not guarded there
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def _writing(path: Path, needed: int = 0) -> Iterator[None]:
    """Says where and how much when the disk refuses."""
    try:
        yield
    except OSError as error:
        room = f"; {needed} bytes more are needed" if needed else ""
        raise ResourceError(
            f"{path} cannot be written ({error.strerror}{room}): make room, or name another folder in PATCHWORDS_CACHE"
        ) from error


def _advice(target: Path) -> str:
    return f"try later, name a mirror in PATCHWORDS_MIRROR, or put the file at {target} by hand and work offline"
