"""The service under load: `python benchmarks/service.py MODEL PICTURE… [--clients 200] [--seconds 30] [-- OPTION…]`.

Starts `patchwords serve MODEL` here, asks it one request at a time, then with many clients at once, and compares every
answer with `Predictor.predict`. A lost or a wrong answer is counted, and the exit code is 1. The clients share the
processors with the service. What stands behind -- goes to `serve`.
"""

import argparse
import asyncio
import json
import os
import platform
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from typing import Any

from patchwords.serve.predictor import Predictor
from patchwords.speed.device import called

READY = 300.0  # seconds until the service must be up
NEAR = 1e-4  # of a probability in float32; --near for narrower numbers
HEAD = "POST /predict?top=1 HTTP/1.1\r\nHost: {}\r\nContent-Length: {}\r\n\r\n"


@dataclass
class Load:
    """What some clients saw."""

    clients: int
    seconds: float = 0.0
    times: list[float] = field(default_factory=list)  # of the answers, in seconds
    wrong: int = 0
    lost: int = 0

    def told(self) -> dict[str, Any]:
        times = sorted(self.times)
        return {
            "clients": self.clients,
            "answers": len(times),
            "wrong": self.wrong,
            "lost": self.lost,
            "per_second": round(len(times) / self.seconds, 1),
            "p50_ms": _at(times, 0.5),
            "p99_ms": _at(times, 0.99),
        }


def _at(times: Sequence[float], share: float) -> float:
    return round(1000 * times[min(int(share * len(times)), len(times) - 1)], 1) if times else float("nan")


@dataclass(frozen=True)
class Asked:
    """A request as bytes, and the class and probability that must come back."""

    request: bytes
    label: str
    probability: float


def expected(model: str, pictures: Sequence[Path], device: str, precision: Any, host: str) -> tuple[list[Asked], str]:
    """What `predict` says of each picture."""
    predictor = Predictor(model, device=device, precision=precision)
    found = []
    for path in pictures:
        data, answer = path.read_bytes(), predictor.predict(path)
        found.append(Asked(HEAD.format(host, len(data)).encode() + data, answer.label, answer.probability))
    return found, called(predictor.compute.device)


async def client(port: int, asked: Sequence[Asked], first: int, stop: float, near: float, load: Load) -> None:
    """One connection that asks again as soon as it is answered."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    turns = cycle([*asked[first % len(asked) :], *asked[: first % len(asked)]])
    try:
        while time.monotonic() < stop:
            one, start = next(turns), time.monotonic()
            writer.write(one.request)
            try:
                status, body = await _answer(reader)
            except (OSError, asyncio.IncompleteReadError):
                load.lost += 1
                return
            load.times.append(time.monotonic() - start)
            if status != 200:
                load.lost += 1
            elif not _is_right(json.loads(body)["predictions"][0], one, near):
                load.wrong += 1
    finally:
        writer.close()


def _is_right(best: dict[str, Any], one: Asked, near: float) -> bool:
    return best["label"] == one.label and abs(best["probability"] - one.probability) < near


async def _answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    head = await reader.readuntil(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head)
    assert length is not None
    return int(head[9:12]), await reader.readexactly(int(length[1]))


async def together(port: int, asked: Sequence[Asked], clients: int, seconds: float, near: float) -> Load:
    load, start = Load(clients), time.monotonic()
    await asyncio.gather(*(client(port, asked, each, start + seconds, near, load) for each in range(clients)))
    load.seconds = time.monotonic() - start
    return load


async def metric(port: int, name: str) -> float:
    """One number of /metrics."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n".encode())
    text = (await reader.read()).decode()
    writer.close()
    values = re.findall(rf"^{name}(?:{{[^}}]*}})? (\S+)$", text, re.MULTILINE)
    return sum(map(float, values))


async def measured(port: int, asked: Sequence[Asked], given: argparse.Namespace) -> dict[str, Any]:
    """One at a time, many at once, and the service's memory after each."""
    await together(port, asked, 8, min(given.seconds / 4, 5.0), given.near)  # everything warm
    memory = "process_resident_memory_bytes"
    before = await metric(port, memory)
    one = await together(port, asked, 1, given.seconds / 3, given.near)
    batches = await metric(port, "patchwords_batch_pictures_count")
    many = await together(port, asked, given.clients, given.seconds, given.near)
    batches = await metric(port, "patchwords_batch_pictures_count") - batches
    rows = [one.told(), many.told()]
    return {
        "one": rows[0],
        "many": rows[1],
        "times": round(rows[1]["per_second"] / rows[0]["per_second"], 2),
        "pictures_per_batch": round(len(many.times) / max(batches, 1), 1),
        "memory_mib": [round(before / 2**20), round(await metric(port, memory) / 2**20)],
    }


def started(model: str, options: Sequence[str]) -> tuple[subprocess.Popen[str], int]:
    """The service in a process of its own, and its port."""
    command = [sys.executable, "-m", "patchwords", "serve", model, "--port", "0", "--json", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise SystemExit(process.wait())
    return process, int(json.loads(line)["address"].rpartition(":")[2])


def main() -> int:
    place = sys.argv.index("--") if "--" in sys.argv else len(sys.argv)
    words, options = sys.argv[1:place], sys.argv[place + 1 :]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("pictures", nargs="+", type=Path)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--near", type=float, default=NEAR)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--precision", default="float32")
    given = parser.parse_args(words)
    process, port = started(given.model, ["--device", given.device, "--precision", given.precision, *options])
    try:
        asked, device = expected(given.model, given.pictures, given.device, given.precision, f"127.0.0.1:{port}")
        found = asyncio.run(measured(port, asked, given))
    finally:
        process.send_signal(signal.SIGTERM)
        code = process.wait(120)
    told = {
        "model": Path(given.model).stem,
        "precision": given.precision,
        "options": " ".join(options),
        "device": device,
        "processors": os.cpu_count(),
        "python": platform.python_version(),
        **found,
        "exit_code": code,
    }
    print(json.dumps(told))
    return int(any(found[name][fault] for name in ("one", "many") for fault in ("wrong", "lost")))


if __name__ == "__main__":
    sys.exit(main())
