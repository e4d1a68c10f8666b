"""PROMISES 26 to 29, 31 and 32: the service as somebody meets it who sends it everything but what it asks for."""

import asyncio
import io
import json
import os
import random
import re
import signal
import struct
import subprocess
import sys
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import patchwords
from patchwords.errors import DataError
from patchwords.models.build import build
from patchwords.models.names import read
from patchwords.serve.http import process
from patchwords.serve.http.limits import Limits
from patchwords.serve.predictor import Predictor
from patchwords.weights.card import Card, fitted

CLASSES = ("<script>", "moss", "sky")
MEGABYTE = 1_000_000
SOON = {"patience": 0.5, "longest": 1.5, "head": 0.5, "linger": 0.5}  # seconds, so that the tests need not wait


@dataclass(frozen=True)
class Heard:
    """A status and what came with it; 0 where the connection was closed without any."""

    status: int
    body: bytes = b""
    head: str = ""

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Served:
    """A service in a process of its own."""

    process: Any
    port: int

    @property
    def memory(self) -> int:
        """Bytes."""
        statm = Path(f"/proc/{self.process.pid}/statm")
        return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGESIZE")

    def request(self, path: str, body: bytes = b"", method: str = "POST", host: str = "", **headers: str) -> bytes:
        told = {"Host": host or f"127.0.0.1:{self.port}", "Content-Length": str(len(body)), **headers}
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {text}" for name, text in told.items() if text != "none")]
        return "\r\n".join([*lines, "", ""]).encode() + body

    def ask(self, *requests: bytes) -> list[Heard]:
        """Each on a connection of its own, all at once."""
        return asyncio.run(self._ask(requests))

    async def _ask(self, requests: tuple[bytes, ...]) -> list[Heard]:
        return await asyncio.gather(*(asked(self.port, request) for request in requests))


async def asked(port: int, request: bytes, sent: Callable[[], None] = lambda: None) -> Heard:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(request)
        sent()
        return await answer(reader)
    finally:
        writer.close()


async def answer(reader: asyncio.StreamReader) -> Heard:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = re.search(r"content-length: (\d+)", head, re.IGNORECASE)
        assert length is not None, head
        return Heard(int(head[9:12]), await reader.readexactly(int(length[1])), head)
    except (OSError, asyncio.IncompleteReadError):
        return Heard(0)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small, at 32 pixels, and with a class that would write a page."""
    config = read("ViT-Mu/16@32")
    config = replace(config, classes=len(CLASSES))
    torch.manual_seed(0)
    built = build(config).eval()
    with torch.no_grad():
        for parameter in built.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    path = tmp_path_factory.mktemp("served") / "small.safetensors"
    patchwords.save(built, path, fitted(Card(model=config), config, CLASSES))
    return path


@pytest.fixture(scope="module")
def pictures() -> list[bytes]:
    chance = np.random.default_rng(0)
    return [encoded(chance.integers(0, 256, (60, 50, 3), dtype=np.uint8)) for _ in range(16)]


def encoded(pixels: Any, kind: str = "JPEG", **options: Any) -> bytes:
    stored = io.BytesIO()
    Image.fromarray(pixels).save(stored, kind, **options)
    return stored.getvalue()


@pytest.fixture(scope="module")
def truth(model: Path, pictures: list[bytes]) -> list[tuple[str, float]]:
    """What `predict` says of each picture."""
    predictor = Predictor(model, device="cpu")
    return [(found.label, found.probability) for found in map(predictor.predict, pictures)]


@pytest.fixture
def serve(launch: Callable[..., Any], model: Path) -> Iterator[Callable[..., Served]]:
    """`serve(*options, **limits)` starts one; the limits are what is not an option."""
    every: list[Served] = []

    def begin(*options: object, **limits: float) -> Served:
        def prepare() -> None:
            Limits.__init__.__kwdefaults__.update(limits)  # type: ignore[attr-defined]

        words = ("serve", model, "--port", 0, "--json", *options)
        started = launch(*words, prepare=prepare, environment={"OMP_NUM_THREADS": "1"})
        started.log.touch()
        limit = time.monotonic() + 60
        while not (ready := re.search(r'"address": "http://127.0.0.1:(\d+)"', started.said)):
            assert not started.ended(), started.said
            assert time.monotonic() < limit, started.said
            time.sleep(0.01)
        every.append(Served(started, int(ready[1])))
        return every[-1]

    yield begin
    for served in every:
        if not served.process.ended():
            served.process.send(signal.SIGTERM)
            assert served.process.wait(30) == 143, served.process.said
        assert "Traceback" not in served.process.said


def right(heard: Heard, wanted: tuple[str, float]) -> bool:
    best = heard.json["predictions"][0]
    return heard.status == 200 and best["label"] == wanted[0] and abs(best["probability"] - wanted[1]) < 1e-4


# 26 and 27: pictures


def png(width: int, height: int, data: bytes, *more: tuple[bytes, bytes]) -> bytes:
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), *more, (b"IDAT", data), (b"IEND", b""))
    parts = [
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body)) for kind, body in chunks
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def claimed(kind: str, find: bytes, skip: int, layout: str, *sides: int) -> bytes:
    """A small picture whose header claims to be large."""
    raw = bytearray(encoded(np.zeros((8, 8, 3), dtype=np.uint8), kind))
    struct.pack_into(layout, raw, raw.index(find) + skip, *sides)
    return bytes(raw)


def bombs() -> dict[str, bytes]:
    zeros = zlib.compress(bytes(40 * MEGABYTE), 9)
    text = b"Comment\0\0" + zeros
    tiff = bytearray(encoded(np.zeros((8, 8, 3), dtype=np.uint8), "TIFF"))
    for match in list(re.finditer(rb"[\x00\x01]\x01[\x03\x04]\x00\x01\x00\x00\x00", bytes(tiff)))[:2]:
        tiff[match.end() : match.end() + 2] = struct.pack("<H", 30_000)
    return {
        "jpeg": claimed("JPEG", b"\xff\xc0", 5, ">HH", 60_000, 60_000),
        "png": png(60_000, 60_000, zeros),
        "png, one row": png(2**31 - 1, 1, zeros),
        "png, no size": png(0, 9, zeros),
        "png, long text": png(8, 8, b"", (b"zTXt", text)),
        "png, long profile": png(8, 8, b"", (b"iCCP", b"a\0\0" + zeros)),
        "bmp": claimed("BMP", b"BM", 18, "<ii", 60_000, 60_000),
        "gif": claimed("GIF", b"GIF8", 6, "<HH", 65_535, 65_535),
        "webp": claimed("WEBP", b"VP8 ", 14, "<HH", 16_383, 16_383),
        "tiff": bytes(tiff),
        "ppm": b"P6 60000 60000 255 " + bytes(9),
    }


def test_a_bomb_costs_neither_time_nor_memory(serve: Callable[..., Served], pictures: list[bytes]) -> None:
    served = serve()
    served.ask(served.request("/predict", pictures[0]))
    before = served.memory
    for name, bomb in bombs().items():
        times = []
        for _ in range(5):
            start = time.monotonic()
            (heard,) = served.ask(served.request("/predict", bomb))
            times.append(time.monotonic() - start)
            assert heard.status == 400, name
        assert min(times) < 0.05, name  # of several: other things use this machine too
    assert served.memory - before < 100 * MEGABYTE


def damaged(raw: bytes, chance: random.Random) -> bytes:
    found = bytearray(raw)
    for _ in range(chance.randint(1, 8)):
        found[chance.randrange(min(len(found), chance.choice([64, len(found)])))] = chance.randrange(256)
    return bytes(found[: chance.choice([len(found), chance.randrange(len(found))])])


@pytest.fixture(scope="module")
def originals() -> list[bytes]:
    pixels = np.random.default_rng(1).integers(0, 256, (40, 30, 3), dtype=np.uint8)
    return [encoded(pixels, kind) for kind in ("JPEG", "PNG", "WEBP", "BMP", "GIF")]


def test_only_our_own_exception_comes_out_of_decoding(
    model: Path, originals: list[bytes], battery: Callable[[int, int], int]
) -> None:
    predictor, chance = Predictor(model, device="cpu"), random.Random(0)
    found = Counter[bool]()
    for number in range(battery(1000, 1_000_000)):
        try:
            predictor.see(damaged(originals[number % len(originals)], chance))
            found[True] += 1
        except DataError:
            found[False] += 1
    assert min(found.values()) > 0.05 * found.total()


def test_damaged_pictures_are_answered_or_refused(
    serve: Callable[..., Served], originals: list[bytes], battery: Callable[[int, int], int]
) -> None:
    served, chance, found = serve(), random.Random(1), Counter[int]()
    paths = ("/predict", "/models/small", "/embed", "/examine", "/attention?layer=1&head=0")
    for _ in range(battery(5, 500)):
        requests = [served.request(chance.choice(paths), damaged(raw, chance)) for raw in originals for _ in range(3)]
        found.update(heard.status for heard in served.ask(*requests))
    assert set(found) == {200, 400}


# 28: uploads


@pytest.mark.parametrize("path", ["/predict", "/models/small", "/embed", "/examine"])
def test_ten_megabytes_are_the_limit_with_a_length_and_without(serve: Callable[..., Served], path: str) -> None:
    served = serve()
    chunks = b"".join(b"80000\r\n" + bytes(0x80000) + b"\r\n" for _ in range(20)) + b"0\r\n\r\n"
    packed = served.request(path, **{"Content-Length": "none", "Transfer-Encoding": "chunked"}) + chunks
    heard = served.ask(
        served.request(path, bytes(10 * MEGABYTE)), served.request(path, bytes(10 * MEGABYTE + 1)), packed
    )
    assert [each.status for each in heard] == [400, 413, 413]
    assert "10,000,000 bytes" in heard[1].json["error"]
    assert "connection: close" in heard[2].head.lower()


def test_slow_clients_are_dropped(serve: Callable[..., Served], pictures: list[bytes]) -> None:
    served = serve(**SOON)
    whole = served.request("/predict", pictures[0])
    start = whole.index(b"\r\n\r\n") + 4

    async def trickled(first: int, pause: float) -> tuple[int, float]:
        """Sends the beginning, and then a byte at a time; the status and when it came."""
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        began = time.monotonic()

        async def send() -> None:
            writer.write(whole[:first])
            for place in range(first, len(whole)):
                await asyncio.sleep(pause)
                writer.write(whole[place : place + 1])

        sending = asyncio.create_task(send())
        heard = await answer(reader)
        sending.cancel()
        writer.close()
        return heard.status, time.monotonic() - began

    async def every() -> list[tuple[int, float]]:
        return await asyncio.gather(
            trickled(0, 0.1), trickled(0, 60), trickled(start, 0.1), trickled(start + 9, 60), trickled(len(whole), 0)
        )

    found = asyncio.run(every())
    assert [status for status, _ in found] == [0, 0, 408, 408, 200]
    assert max(seconds for _, seconds in found) < 5
    assert 'patchwords_taken{room="bodies"} 0' in served.ask(served.request("/metrics", method="GET"))[0].body.decode()


def test_a_full_queue_says_so_and_loses_nobody(
    serve: Callable[..., Served], pictures: list[bytes], truth: list[tuple[str, float]]
) -> None:
    served = serve("--queue", 4, "--max-batch", 1, "--workers", 1)
    which = [number % len(pictures) for number in range(100)]
    heard = served.ask(*(served.request("/predict", pictures[number]) for number in which))
    found = Counter(each.status for each in heard)
    assert set(found) == {200, 429}
    assert found[200] >= 4
    for each, number in zip(heard, which, strict=True):
        assert right(each, truth[number]) if each.status == 200 else "retry-after: 1" in each.head.lower()


def test_memory_is_bounded_whoever_comes(
    serve: Callable[..., Served], pictures: list[bytes], battery: Callable[[int, int], int]
) -> None:
    """Many send almost all of a large body, and then nothing; others are still served."""
    clients, bodies = battery(60, 1000), 20 * MEGABYTE
    served = serve(**SOON | {"bodies": bodies, "rate": 10**9, "patience": 3.0, "longest": 3.0})
    served.ask(*(served.request("/predict", picture) for picture in pictures))
    before = served.memory
    highest = [0]

    async def stuffed() -> int:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        body = bytes(4 * MEGABYTE)
        writer.write(served.request("/predict", body)[:-1])
        highest[0] = max(highest[0], served.memory)
        heard = await answer(reader)
        highest[0] = max(highest[0], served.memory)
        writer.close()
        return heard.status

    async def every() -> list[int]:
        return await asyncio.gather(*(stuffed() for _ in range(clients)))

    found = Counter(asyncio.run(every()))
    assert set(found) <= {0, 408, 429}
    told = served.ask(served.request("/metrics", method="GET"))[0].body.decode()
    assert 'route="/predict",method="POST",status="429"' in told  # a sender may have been closed before it read it
    assert highest[0] - before < 3 * bodies + clients * 300_000  # and what connections themselves need
    assert served.ask(served.request("/predict", pictures[0]))[0].status == 200


def test_there_are_so_many_connections_and_no_more(serve: Callable[..., Served], pictures: list[bytes]) -> None:
    served = serve("--connections", 5, **SOON)

    async def every() -> list[int]:
        idle = [await asyncio.open_connection("127.0.0.1", served.port) for _ in range(5)]
        refused = await asked(served.port, served.request("/predict", pictures[0]))
        await asyncio.sleep(SOON["head"] + 0.3)
        served_then = await asked(served.port, served.request("/predict", pictures[0]))
        for _, writer in idle:
            writer.close()
        return [refused.status, served_then.status]

    first, then = asyncio.run(every())
    assert first in (0, 503)
    assert then == 200


# 29 and 31: who is served, and names


def test_foreign_names_and_pages_are_not_served(serve: Callable[..., Served], pictures: list[bytes]) -> None:
    served = serve()
    home = f"127.0.0.1:{served.port}"
    hosts = [
        *("evil.example", f"evil.example:{served.port}", f"{home}.evil.example", f"evil.example@{home}", "127.0.0.1:1"),
        *(
            f"localhost.:{served.port}",
            f"127.1:{served.port}",
            f"0:{served.port}",
            "localhost",
            f"10.0.0.1:{served.port}",
        ),
        *(f"{home}, evil.example", f"[::]:{served.port}", f"127.0.0.2:{served.port}", "169.254.169.254", "[::1"),
    ]
    origins = [
        *("null", "http://evil.example", f"http://evil.example:{served.port}", "https://localhost", "http://localhost"),
        *(f"http://{home}.evil.example", f"http://{home}/", "file://", f"http://user@{home}", "http://127.0.0.1:1"),
        *("chrome-extension://a", f"ftp://{home}", f"http://localhost:{served.port}", f"//{home}", "evil"),
    ]
    assert len(hosts) + len(origins) == 30
    requests = [served.request("/predict", pictures[0], host=host) for host in hosts]
    requests += [served.request("/predict", pictures[0], Origin=origin) for origin in origins]
    found = [heard.status for heard in served.ask(*requests)]
    assert set(found[: len(hosts)]) <= {400, 421}
    assert set(found[len(hosts) :]) == {403}
    assert served.ask(served.request("/predict", pictures[0], Origin=f"http://{home}"))[0].status == 200
    for heard in served.ask(served.request("/predict", pictures[0])):
        assert "access-control" not in heard.head.lower()


def test_schemathesis_finds_no_fault(serve: Callable[..., Served], battery: Callable[[int, int], int]) -> None:
    """A number of examples a route; the coverage of the schema's corners comes on top."""
    served, checks = serve(), "not_a_server_error,status_code_conformance,content_type_conformance"
    checks += ",response_schema_conformance,unsupported_method,negative_data_rejection,allow_header_conformance"
    command = [sys.executable, "-m", "schemathesis.cli", "run", f"http://127.0.0.1:{served.port}/openapi.json"]
    command += ["--checks", checks, "-n", str(battery(3, 1600)), "--seed", "0", "--no-color", "--warnings", "off"]
    command += ["--generation-database", "none"]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", cwd=served.process.log.parent, timeout=7200)
    assert done.returncode == 0, done.stdout + done.stderr
    generated = re.search(r"(\d+) generated", done.stdout)
    assert generated is not None
    assert int(generated[1]) > battery(200, 20_000)


# 32: under SIGTERM, under load, for long


def test_no_answer_is_lost_when_the_service_is_stopped(
    serve: Callable[..., Served],
    pictures: list[bytes],
    truth: list[tuple[str, float]],
    battery: Callable[[int, int], int],
) -> None:
    count, sent = battery(200, 1000), [0]
    served = serve("--max-batch", 4)
    which = [number % len(pictures) for number in range(count)]

    def send() -> None:
        sent[0] += 1
        if sent[0] == count:
            served.process.send(signal.SIGTERM)
            served.process.send(signal.SIGTERM)  # as GNU timeout does

    async def every() -> list[Heard]:
        requests = [served.request("/predict", pictures[number]) for number in which]
        return await asyncio.gather(*(asked(served.port, request, send) for request in requests))

    heard = asyncio.run(every())
    assert Counter(each.status for each in heard) == {200: count}
    assert all(right(each, truth[number]) for each, number in zip(heard, which, strict=True))
    assert served.process.wait(30) == 143
    with pytest.raises(OSError):  # noqa: PT011  (refused or reset, as the system likes)
        served.ask(served.request("/healthz", method="GET"))


def test_nothing_is_lost_or_wrong_with_200_clients_and_memory_stays_flat(
    serve: Callable[..., Served],
    pictures: list[bytes],
    truth: list[tuple[str, float]],
    battery: Callable[[int, int], int],
) -> None:
    total, clients = battery(3000, 100_000), 200
    served = serve()
    wrong, at = [0], list[int]()

    async def client(first: int, count: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        for number in range(first, first + count):
            writer.write(served.request("/predict", pictures[number % len(pictures)]))
            wrong[0] += not right(await answer(reader), truth[number % len(pictures)])
        writer.close()

    async def every(count: int) -> None:
        await asyncio.gather(*(client(number, count // clients) for number in range(clients)))

    for _ in range(3):
        asyncio.run(every(total // 3))
        at.append(served.memory)
    assert wrong == [0]
    assert at[2] - at[1] < 8 * MEGABYTE + 0.02 * at[1]
    (health,) = served.ask(served.request("/healthz", method="GET"))
    assert health.json == {"status": "ok", "models": {"small": "ok"}}


def test_the_process_tells_what_it_uses() -> None:
    assert process.memory() > 10 * MEGABYTE
    assert process.files() > 2
    assert process.seconds() > 0
