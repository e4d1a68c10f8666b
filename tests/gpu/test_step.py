"""A step of training as a CUDA graph: the same bits as when it is launched, and a way on where it cannot be one."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from patchwords.objectives import supervised
from patchwords.speed.step import WARM, Step
from patchwords.training.guard import EVERY
from patchwords.training.signals import StoppedError
from patchwords.training.train import train
from tests.gpu.test_training import EIGHT_BITS, Ear, bits, losses

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
    pytest.mark.filterwarnings("ignore"),
]

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

DRAWN = {"parts.dropout": 0.1, "parts.stochastic_depth": 0.1, "average": 0.9, "data.cache": "device", "clip": 1.0}
OPTIMIZERS: list[dict[str, Any]] = [
    {"optimizer": {"kind": kind, "lr": 1e-3, "layer_decay": 0.8}} for kind in ("adam", "adamw", "sgd", "lamb")
]
OBJECTIVES: list[dict[str, Any]] = [
    {"objective": {"kind": "mae"}, "best": "last"},
    {"objective": {"kind": "masked_patch"}, "best": "last"},
    {
        "objective": {"kind": "dino", "outputs": 64},
        "best": "last",
        "data.mix.mixup": 0.0,
        "data.glimpses": {"large": 1},
        "data.crop": {"kind": "random"},
    },
]


@pytest.fixture(autouse=True)
def free() -> Iterator[None]:
    yield
    torch.use_deterministic_algorithms(False)


def learn(run: Path, graph: str, *, ear: Ear | None = None, **change: Any) -> Path:
    change = {"duration": "25 steps", "evaluate": "10 steps", "graph": graph} | change
    train(out=run, device="cuda", deterministic=True, watcher=ear, change=change)
    return run


def never_and_always(tmp_path: Path, **change: Any) -> tuple[Path, Path]:
    ear = Ear()
    launched, recorded = (
        learn(tmp_path / "never", "never", **change),
        learn(tmp_path / "always", "always", ear=ear, **change),
    )
    assert not [note for note in ear.notes if "cannot be recorded" in note]
    return launched, recorded


@pytest.mark.parametrize("change", OPTIMIZERS, ids=lambda change: change["optimizer"]["kind"])
@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_a_recorded_run_ends_with_the_bits_of_a_launched_one(
    change: dict[str, Any], precision: str, tmp_path: Path
) -> None:
    launched, recorded = never_and_always(tmp_path, **DRAWN | change | {"precision": precision})
    assert bits(recorded) == bits(launched)
    assert losses(recorded) == losses(launched)


@EIGHT_BITS
def test_a_run_in_eight_bits_can_be_recorded(tmp_path: Path) -> None:
    launched, recorded = never_and_always(tmp_path, **DRAWN | {"parts.dropout": 0.0, "precision": "fp8"})
    assert bits(recorded) == bits(launched)
    assert losses(recorded) == losses(launched)


@pytest.mark.parametrize("change", OBJECTIVES, ids=lambda change: change["objective"]["kind"])
def test_every_objective_can_be_recorded(change: dict[str, Any], tmp_path: Path) -> None:
    launched, recorded = never_and_always(tmp_path, **DRAWN | change)
    assert bits(recorded) == bits(launched)


def test_a_recorded_run_resumes_to_the_same_bits(tmp_path: Path) -> None:
    whole = learn(tmp_path / "whole", "always", **DRAWN)
    for last in (2, 14):
        with pytest.raises(StoppedError):
            learn(tmp_path / f"{last}", "always", ear=Ear(last), **DRAWN)
        train(resume=tmp_path / f"{last}", device="cuda", deterministic=True)
        assert bits(tmp_path / f"{last}") == bits(whole)


def test_a_rollback_reaches_into_a_recorded_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A picture that spoils its batch does so in a replay too; without it, both go the same way."""
    before = supervised.cross_entropy

    def spoilt(logits: Tensor, target: Tensor, settings: Any) -> Tensor:
        return before(logits, target, settings) * torch.where(spoils.bool(), float("nan"), 1.0)

    spoils = torch.zeros((), device="cuda")
    monkeypatch.setattr(supervised, "cross_entropy", spoilt)

    class Poisoner(Ear):
        def step(self, done: int, total: int) -> None:
            super().step(done, total)
            spoils.fill_(done == 14)

    ends = []
    for graph in ("never", "always"):
        ear = Poisoner()
        run = learn(tmp_path / graph, graph, ear=ear, nonfinite="rollback", minutes=1e-6, **DRAWN)
        assert any("back to step" in note for note in ear.notes)
        ends.append(bits(run))
    assert EVERY < 14
    assert ends[0] == ends[1]


def test_automatic_records_a_small_model(tmp_path: Path) -> None:
    ear = Ear()
    learn(tmp_path / "run", "auto", ear=ear, **{"data.cache": "device"})
    assert [note for note in ear.notes if "replayed as one graph" in note]


# The step by itself


@pytest.fixture
def weight() -> Tensor:
    return torch.zeros(1000, device="cuda")


def walk(weight: Tensor, asks: bool) -> Callable[[dict[str, Tensor]], dict[str, Tensor]]:
    def work(batch: dict[str, Tensor]) -> dict[str, Tensor]:
        weight.add_(torch.rand_like(weight) * batch["x"].sum())
        loss = weight.sum()
        if asks and float(loss) < -1:
            raise AssertionError
        return {"loss": loss}

    return work


def walked(weight: Tensor, graph: Any, notes: list[str], asks: bool = False) -> list[float]:
    step = Step(walk(weight, asks), graph=graph, alone=False, device=weight.device, note=notes.append)
    found = []
    for number in range(4 * WARM):
        torch.manual_seed(number % 5)
        found.append(step({"x": torch.full((3,), float(number), device="cuda")})["loss"])
    return [float(loss) for loss in found]


def test_what_is_drawn_in_a_replay_is_drawn_by_the_seed_before_it(weight: Tensor) -> None:
    notes: list[str] = []
    launched = walked(weight.clone(), "never", notes)
    recorded = walked(weight.clone(), "always", notes)
    assert recorded == launched
    assert recorded == sorted(set(recorded))  # it goes on and on
    assert not notes


def test_work_that_asks_the_host_is_launched_as_before(weight: Tensor) -> None:
    notes: list[str] = []
    launched = walked(weight.clone(), "never", notes)
    refused = walked(weight.clone(), "always", notes, asks=True)
    assert refused == launched
    (note,) = notes
    assert "cannot be recorded as a graph" in note
    assert walked(weight.clone(), "always", []) == launched  # the device can record again
    assert torch.cuda.current_stream() == torch.cuda.default_stream()
