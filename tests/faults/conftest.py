"""How much the fault tests try, and a small run to disturb: every draw is in it, and it takes about two seconds.

PATCHWORDS_BATTERY=full tries all of it. Runs are the command line's own, in forked processes.
"""

import hashlib
import json
import mmap
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from patchwords import cli
from patchwords.cli.progress import Bars
from patchwords.training.train import train

CLASSES = ("amber", "moss", "sky")
RECIPE = """
model = "ViT-Mu/16"
image = 32
parts = { depth = 2, dropout = 0.1, weight_dropout = 0.1, stochastic_depth = 0.2 }
batch = 8
duration = "4 epochs"
optimizer = { kind = "adamw", lr = 5e-4, decay = 0.05 }
schedule = { warmup = "10%", floor = 0.01 }
objective = { kind = "supervised", smoothing = 0.1 }
clip = 1.0
average = 0.9
minutes = 0.003

[data]
workers = 0
augment = { policy = { kind = "randaugment", deviation = 0.5, probability = 0.5 }, jitter = 0.2, erase = 0.25 }
mix = { mixup = 0.8, cutmix = 1.0 }
"""
KEPT = ("model", "optimizer", "average", "objective")  # of a checkpoint; its `best` is the model of the run
SIGNALS = (signal.SIGINT, signal.SIGTERM)
TIMES = ("seconds", "images_per_second", "waiting")  # what a line of metrics tells of the clock


@pytest.fixture(scope="session")
def battery() -> Callable[[int, int], int]:
    """`battery(small, full)` is the count to try."""
    return lambda small, full: full if os.environ.get("PATCHWORDS_BATTERY") == "full" else small


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    """Forked processes must not wait for threads that are not there."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def paint() -> Callable[[Path, int], Path]:
    """`paint(folder, count)` fills a folder with small noisy JPEGs, each class of another colour."""

    def fill(folder: Path, count: int) -> Path:
        chance = np.random.default_rng(0)
        for number in range(count):
            label = number % len(CLASSES)
            pixels = chance.integers(0, 160, (*chance.integers(40, 60, 2), 3), dtype=np.uint8)
            pixels[..., label] += 80
            (folder / CLASSES[label]).mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels).save(folder / CLASSES[label] / f"{number:03}.jpg")
        return folder

    return fill


@pytest.fixture(scope="session")
def photos(tmp_path_factory: pytest.TempPathFactory, paint: Callable[[Path, int], Path]) -> Path:
    """Sixty pictures of three classes; nobody may change them."""
    return paint(tmp_path_factory.mktemp("photos") / "photos", 60)


@pytest.fixture(scope="session")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recipe with every kind of draw: 24 steps, four evaluations, and checkpoints all the time."""
    path = tmp_path_factory.mktemp("recipe") / "tiny.toml"
    path.write_text(RECIPE)
    return path


@dataclass(frozen=True)
class Bits:
    """What must be the same in two runs: SHA-256 by file, the rows of metrics without times, and the state."""

    tensors: dict[str, str]
    rows: list[dict[str, Any]]
    state: dict[str, Any]


@pytest.fixture(scope="session")
def bits() -> Callable[[Path], Bits]:
    """`bits(run)` is what a run has come to."""

    def look(run: Path) -> Bits:
        last = run / "checkpoints" / (run / "checkpoints" / "last").read_text().split()[0]
        kept = [last / f"{stem}.safetensors" for stem in KEPT]
        files = [*(file for file in kept if file.exists()), *run.glob("model.safetensors")]
        text = (run / "metrics.jsonl").read_text() if (run / "metrics.jsonl").exists() else ""
        rows = [json.loads(line) for line in text.splitlines()]
        state = json.loads((last / "state.json").read_text())
        for unsteady in ("seconds", "metrics", "best_in"):  # when it was, how long a number is, which was saved next
            del state["run"][unsteady]
        return Bits(
            {str(file.relative_to(run)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files},
            [{key: value for key, value in row.items() if key not in TIMES} for row in rows],
            state,
        )

    return look


@dataclass
class Launched:
    """A process that trains."""

    pid: int
    log: Path
    place: mmap.mmap
    start: float = field(default_factory=time.monotonic)
    seconds: float = 0.0
    code: int | None = None

    @property
    def step(self) -> int:
        """How many steps it has made."""
        return int.from_bytes(self.place[:8], "little")

    @property
    def said(self) -> str:
        return self.log.read_text()

    def send(self, number: int) -> None:
        """A signal; none where it has ended already."""
        if self.code is None:
            os.kill(self.pid, number)

    def ended(self) -> bool:
        if self.code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.code, self.seconds = os.waitstatus_to_exitcode(status), time.monotonic() - self.start
        return self.code is not None

    def wait(self, seconds: float = 120.0) -> int:
        """The exit code, negative for a signal; one that hangs is killed and fails the test."""
        limit = time.monotonic() + seconds
        while not self.ended():
            if time.monotonic() > limit:
                self.send(signal.SIGKILL)
                os.waitpid(self.pid, 0)
                self.code = -signal.SIGKILL
                pytest.fail(f"it did not end within {seconds:g} seconds; it said {self.said}")
            time.sleep(0.005)
        assert self.code is not None
        return self.code


Launch = Callable[..., Launched]


@pytest.fixture
def launch(tmp_path: Path) -> Iterator[Launch]:
    """`launch("train", ...)` runs a command in a process of its own, after `prepare()` if that is given."""
    every: list[Launched] = []

    def begin(
        *words: object, prepare: Callable[[], None] = lambda: None, environment: Mapping[str, str] | None = None
    ) -> Launched:
        log, place = tmp_path / f"log-{len(every)}", mmap.mmap(-1, 8)
        sys.stdout.flush()
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)  # one that comes too early waits
        pid = os.fork()
        if pid == 0:
            os.environ.update(environment or {})
            _command([str(word) for word in words], log, place, prepare)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        every.append(Launched(pid, log, place))
        return every[-1]

    yield begin
    for launched in every:
        if not launched.ended():
            launched.send(signal.SIGKILL)
            os.waitpid(launched.pid, 0)


def _command(words: list[str], log: Path, place: mmap.mmap, prepare: Callable[[], None]) -> None:
    """The rest of a forked process's life; it never comes back into the test."""
    code = 99
    try:
        os.setpgid(0, 0)
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        for stream in (1, 2):
            os.dup2(descriptor, stream)
        sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w", buffering=1)
        sys.argv = ["patchwords", *words, "--debug"]
        for number in SIGNALS:
            signal.signal(number, lambda number, frame: sys.exit(128 + number))  # as the command line does at once
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        before = Bars.step

        def step(self: Bars, done: int, total: int) -> None:
            place[:8] = done.to_bytes(8, "little")
            before(self, done, total)

        Bars.step = step  # type: ignore[method-assign]
        if os.environ.get("PATCHWORDS_BATTERY") != "full":
            os.fsync = lambda descriptor: None  # only a power cut asks for it, and test_checkpoint is about those
        prepare()
        cli.main()
        code = 0
    except SystemExit as left:
        code = left.code if isinstance(left.code, int) else 0
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError):  # nobody may be there to read it
                stream.flush()
        os._exit(code)


@dataclass(frozen=True)
class Reference:
    """The run that nobody disturbed, and the seconds that it takes in a process of its own."""

    run: Path
    bits: Bits
    seconds: float


@pytest.fixture(scope="session")
def undisturbed(
    photos: Path, recipe: Path, bits: Callable[[Path], Bits], tmp_path_factory: pytest.TempPathFactory
) -> Reference:
    """Twice: the first time all that is imported late comes in, so that forked processes have it."""
    folder = tmp_path_factory.mktemp("undisturbed")
    train(photos, recipe=recipe, out=folder / "first", device="cpu", change={"duration": "1 steps"})
    start = time.monotonic()
    train(photos, recipe=recipe, out=folder / "run", device="cpu")
    return Reference(folder / "run", bits(folder / "run"), time.monotonic() - start)


@pytest.fixture(scope="session")
def begin(photos: Path, recipe: Path) -> Callable[[Path], tuple[object, ...]]:
    """`begin(run)` is the command that begins the run, or goes on with it if it was begun."""

    def command(run: Path) -> tuple[object, ...]:
        if (run / "recipe.toml").exists():
            return ("train", "--resume", run, "--device", "cpu")
        return ("train", photos, "--recipe", recipe, "--out", run, "--device", "cpu")

    return command


@pytest.fixture
def port() -> int:
    """One that is free."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])
