"""Training on a CUDA device: every precision and cache learns, a resume gives the same bits, and memory may run out."""

import hashlib
import json
import math
import os
import signal
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from patchwords.errors import NonFiniteError
from patchwords.objectives import supervised
from patchwords.training.guard import EVERY
from patchwords.training.signals import StoppedError
from patchwords.training.train import Run, train
from patchwords.training.watch import Log

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
    pytest.mark.filterwarnings("ignore"),  # inductor's advice on precision is not ours to mend
]

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # for same bits, and before the first product

DRAWS = {
    "parts.dropout": 0.1,
    "parts.stochastic_depth": 0.1,
    "average": 0.9,
    "data.augment.policy": {"kind": "randaugment"},
    "data.augment.erase": 0.25,
    "data.mix.cutmix": 1.0,
}
GIB = 1 << 30
EIGHT_BITS = pytest.mark.skipif(
    torch.cuda.is_available() and torch.cuda.get_device_capability() < (8, 9),
    reason="a GPU without products in eight bits",
)


@dataclass
class Ear(Log):
    """Keeps what was said, and asks to stop after a step."""

    last: int = 1_000_000
    notes: list[str] = field(default_factory=list)
    done: int = 0

    def note(self, remark: str) -> None:
        self.notes.append(remark)

    def step(self, done: int, total: int) -> None:
        self.done = done
        if done == self.last:
            os.kill(os.getpid(), signal.SIGTERM)


@pytest.fixture(autouse=True)
def exact() -> Iterator[None]:
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    yield
    torch.use_deterministic_algorithms(False)


def digits(run: Path, *, epochs: float = 3, device: str = "cuda", ear: Ear | None = None, **change: Any) -> Run:
    return train(epochs=epochs, out=run, device=device, watcher=ear, change=change)


def rows(run: Path, kind: str = "train") -> list[dict[str, Any]]:
    found = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [row for row in found if row["kind"] == kind]


def losses(run: Path) -> list[float]:
    return [row["loss"] for row in rows(run)]


@pytest.mark.parametrize("precision", ["float32", "bf16", "fp16", pytest.param("fp8", marks=EIGHT_BITS)])
@pytest.mark.parametrize("cache", ["none", "memory", "device"])
def test_every_precision_and_cache_learns(precision: str, cache: str, tmp_path: Path) -> None:
    run = digits(tmp_path / "run", precision=precision, **{"data.cache": cache, "average": 0.9})
    found = losses(run.folder)
    assert all(map(math.isfinite, found))
    assert found[-1] < found[0] - 0.1
    assert all(tensor.isfinite().all() for tensor in run.model.state_dict().values())
    assert "cuda" in json.loads((run.folder / "run.json").read_text())["device"]


def test_the_device_sees_what_the_cpu_sees(tmp_path: Path) -> None:
    """Every decision is drawn on the CPU: before rounding has its say, the losses are the same."""
    change = {key: value for key, value in DRAWS.items() if not key.startswith("parts.")}
    for device in ("cpu", "cuda"):
        digits(tmp_path / device, epochs=0.5, device=device, **change)
    assert losses(tmp_path / "cuda") == pytest.approx(losses(tmp_path / "cpu"), abs=5e-3)


def test_a_resumed_run_ends_with_the_same_bits(tmp_path: Path) -> None:
    for cache in ("none", "device"):
        whole, pieces = tmp_path / f"whole-{cache}", tmp_path / f"pieces-{cache}"
        change = DRAWS | {"data.cache": cache}
        train(epochs=1, out=whole, device="cuda", deterministic=True, change=change)
        with pytest.raises(StoppedError):
            train(epochs=1, out=pieces, device="cuda", deterministic=True, change=change, watcher=Ear(7))
        with pytest.raises(StoppedError):
            train(resume=pieces, device="cuda", deterministic=True, watcher=Ear(15))
        train(resume=pieces, device="cuda", deterministic=True)
        assert bits(pieces) == bits(whole)


def bits(run: Path) -> dict[str, str]:
    last = run / "checkpoints" / (run / "checkpoints" / "last").read_text().split()[0]
    files = [run / "model.safetensors", *(last / f"{stem}.safetensors" for stem in ("model", "optimizer", "average"))]
    return {str(file.relative_to(run)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


def test_a_scaler_is_part_of_the_state(tmp_path: Path) -> None:
    with pytest.raises(StoppedError):
        digits(tmp_path / "run", epochs=1, ear=Ear(9), precision="fp16")
    (last,) = (tmp_path / "run" / "checkpoints").glob("step-000009")
    saved = json.loads((last / "state.json").read_text())["scaler"]
    assert saved["scale"] > 0
    train(resume=tmp_path / "run", device="cuda")
    assert all(map(math.isfinite, losses(tmp_path / "run")))


# Memory


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eighty pictures of 224 pixels in two classes."""
    path = tmp_path_factory.mktemp("data") / "large.npz"
    chance, labels = np.random.default_rng(0), np.arange(80) % 2
    images = chance.integers(0, 128, (80, 224, 224, 3), dtype=np.uint8)
    images[labels == 1] += 100
    np.savez(path, images=images, labels=labels)
    return path


@pytest.fixture
def little_memory() -> Iterator[None]:
    """Two and a half GiB, as if others had the rest."""
    torch.cuda.empty_cache()
    total = torch.cuda.get_device_properties(0).total_memory
    held = torch.cuda.memory_allocated()
    torch.cuda.set_per_process_memory_fraction(min(1.0, (held + 2.5 * GIB) / total))
    yield
    torch.cuda.set_per_process_memory_fraction(1.0)
    torch.cuda.empty_cache()


def learn(data: Path, run: Path, ear: Ear, **change: Any) -> Run:
    steps = {"duration": "3 steps", "evaluate": "3 steps", "parts.stochastic_depth": 0.0, "data.workers": 0} | change
    return train(data, model="ViT-S/16", out=run, device="cuda", change=steps, watcher=ear)


def test_a_run_without_enough_memory_takes_smaller_pieces(large: Path, little_memory: None, tmp_path: Path) -> None:
    ear = Ear()
    learn(large, tmp_path / "little", ear, batch=64)  # its activations alone are four GiB
    said = [note for note in ear.notes if note.startswith("out of memory")]
    assert said
    assert all("the batch stays 64" in note for note in said)
    torch.cuda.set_per_process_memory_fraction(1.0)
    ear = Ear()
    learn(large, tmp_path / "enough", ear, batch=64)
    assert not [note for note in ear.notes if note.startswith("out of memory")]
    assert losses(tmp_path / "little") == pytest.approx(losses(tmp_path / "enough"), abs=1e-3)


def test_the_largest_batch_that_fits_is_found(large: Path, little_memory: None, tmp_path: Path) -> None:
    ear = Ear()
    learn(large, tmp_path / "run", ear, batch="auto")
    found = tomllib.loads((tmp_path / "run" / "recipe.toml").read_text())
    assert found["batch"] == 8  # at least eight steps an epoch of 64 pictures
    assert not [note for note in ear.notes if note.startswith("out of memory")]


# What can go wrong


@pytest.mark.parametrize("precision", ["float32", "bf16", pytest.param("fp8", marks=EIGHT_BITS)])
def test_a_loss_that_is_no_number_is_found_within_ten_steps(
    precision: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, before = [0], supervised.cross_entropy

    def lost(*arguments: Any) -> Tensor:
        calls[0] += 1
        return before(*arguments) * (math.nan if calls[0] == 14 else 1.0)

    monkeypatch.setattr(supervised, "cross_entropy", lost)
    ear = Ear()
    with pytest.raises(NonFiniteError, match="step 13 gave a loss of nan"):
        digits(tmp_path / "run", ear=ear, precision=precision, graph="never")
    assert ear.done <= 13 + EVERY


@pytest.mark.parametrize("precision", ["float32", "bf16", "fp16"])
def test_a_bad_step_is_left_out(precision: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls, before = [0], supervised.cross_entropy

    def lost(*arguments: Any) -> Tensor:
        calls[0] += 1
        return before(*arguments) * (math.inf if calls[0] == 14 else 1.0)

    monkeypatch.setattr(supervised, "cross_entropy", lost)
    run = digits(tmp_path / "run", epochs=1, precision=precision, nonfinite="skip")
    assert all(tensor.isfinite().all() for tensor in run.model.state_dict().values())


def test_a_compiled_run_learns_the_same(tmp_path: Path) -> None:
    torch._dynamo.reset()
    for compiled in (False, True):
        digits(tmp_path / str(compiled), epochs=0.5, compile=compiled)
    assert losses(tmp_path / "True") == pytest.approx(losses(tmp_path / "False"), abs=5e-3)
