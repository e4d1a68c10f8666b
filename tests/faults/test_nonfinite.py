"""PROMISE 6: a NaN or an infinity is found within ten steps, saved nowhere, and told with the pictures of its batch."""

import json
import math
import os
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from torch import Tensor

from patchwords.data.finish import Finish
from patchwords.data.order import Order
from patchwords.data.sources.door import open_data
from patchwords.errors import NonFiniteError
from patchwords.objectives import supervised
from patchwords.training import assemble, loop
from patchwords.training import train as training
from patchwords.training.guard import EVERY
from patchwords.training.train import train

PLACES = ("loss", "loss alone", "gradient", "input")
VALUES = (math.nan, math.inf, -math.inf)
STEPS = 24


@dataclass
class Poison:
    """What is made non-finite, at which step, and how often; it notes the last step that was made."""

    place: str
    value: float
    step: int
    doses: float = math.inf
    now: int = field(default=-1, init=False)

    def give(self, monkeypatch: pytest.MonkeyPatch) -> None:
        finish, loss = Finish.__call__, supervised.cross_entropy

        def finished(this: Finish, *arguments: Any, **options: Any) -> dict[str, Tensor]:
            self.now = options["step"]
            batch = finish(this, *arguments, **options)
            if self._due("input"):
                batch["image"][0, 0, 0, 0] = self.value
            return batch

        def lost(logits: Tensor, *others: Any) -> Tensor:
            if self._due("gradient"):
                logits.register_hook(lambda gradient: gradient * self.value)
            found = loss(logits, *others)
            if self._due("loss"):
                return found * self.value
            return found + self.value if self._due("loss alone") else found

        monkeypatch.setattr(Finish, "__call__", finished)
        monkeypatch.setattr(supervised, "cross_entropy", lost)

    def _due(self, place: str) -> bool:
        if place != self.place or self.now != self.step or self.doses <= 0:
            return False
        self.doses -= 1
        return True


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody reads these reports, and the power stays on."""
    monkeypatch.setattr(training, "report", lambda *_: None)
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture
def begin_here(photos: Path, recipe: Path) -> Callable[..., Any]:
    """The run of all these tests in this process, with some settings changed."""

    def begin(run: Path, change: Mapping[str, Any] | None = None) -> Any:
        return train(photos, recipe=recipe, out=run, device="cpu", change=change)

    return begin


def finite(run: Path) -> bool:
    """Whether every number of every checkpoint is one."""
    files = list((run / "checkpoints").glob("*/*.safetensors"))
    assert files
    for file in files:
        with safe_open(file, framework="pt") as held:
            if not all(held.get_tensor(name).isfinite().all() for name in held.keys()):  # noqa: SIM118
                return False
    return True


def test_no_poison_is_saved_and_the_run_goes_on_from_before_it(
    begin_here, photos: Path, undisturbed, bits, battery, tmp_path: Path
) -> None:
    source = open_data(photos).train
    for number in range(battery(20, 125)):
        chance, run = random.Random(number), tmp_path / f"run-{number}"
        poison = Poison(PLACES[number % len(PLACES)], chance.choice(VALUES), chance.randrange(STEPS))
        with pytest.MonkeyPatch.context() as patch:
            poison.give(patch)
            with pytest.raises(NonFiniteError) as caught:
                begin_here(run)
        assert caught.value.exit_code == 6
        assert f"step {poison.step} gave" in str(caught.value), poison
        for index in Order(0, len(source)).take(8 * poison.step, 8 * poison.step + 8)[0]:
            assert source.name(int(index)) in str(caught.value)
        assert poison.now < poison.step + EVERY
        assert finite(run)
        if number % 5 == 0:
            train(resume=run, device="cpu")
            assert bits(run) == undisturbed.bits


@pytest.mark.parametrize("place", PLACES)
def test_skipping_and_rolling_back_leave_the_step_out(
    place: str, begin_here, undisturbed, bits, tmp_path: Path
) -> None:
    found = {}
    for mode in ("skip", "rollback"):
        with pytest.MonkeyPatch.context() as patch:
            Poison(place, math.nan, 9).give(patch)
            begin_here(tmp_path / mode, {"nonfinite": mode})
        found[mode] = bits(tmp_path / mode)
        assert finite(tmp_path / mode)
        assert found[mode].state["run"]["skipped"] == [9]
    assert found["skip"] == found["rollback"]
    assert found["skip"].tensors != undisturbed.bits.tensors


def test_a_weight_that_was_lost_comes_back_by_rolling_back(begin_here, bits, tmp_path: Path) -> None:
    """A flipped bit in memory makes one step infinite and would make all later ones so."""

    def flip(monkeypatch: pytest.MonkeyPatch, model: list[torch.nn.Module]) -> None:
        forward = supervised.Classification.forward

        def flipped(self: supervised.Classification, batch: dict[str, Tensor]) -> Any:
            if len(model) == 13:
                next(self.model.parameters()).data.view(-1)[0] = math.inf
            model.append(self)
            return forward(self, batch)

        monkeypatch.setattr(supervised.Classification, "forward", flipped)

    with pytest.MonkeyPatch.context() as patch:
        flip(patch, [])
        begin_here(tmp_path / "run", {"nonfinite": "rollback"})
    assert finite(tmp_path / "run")
    with pytest.MonkeyPatch.context() as patch:
        Poison("loss", math.nan, 13).give(patch)
        begin_here(tmp_path / "skipped", {"nonfinite": "skip"})
    assert bits(tmp_path / "run").tensors == bits(tmp_path / "skipped").tensors


def test_a_model_that_stays_poisoned_ends_the_run_in_every_mode(begin_here, tmp_path: Path) -> None:
    forward = supervised.Classification.forward

    def spoilt(self: Any, batch: dict[str, Tensor]) -> Any:
        self.model.head.classifier.weight.data.fill_(math.nan)
        return forward(self, batch)

    for mode in ("stop", "skip", "rollback"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(supervised.Classification, "forward", spoilt)
            with pytest.raises(NonFiniteError):
                begin_here(tmp_path / mode, {"nonfinite": mode})
        assert finite(tmp_path / mode)


@pytest.fixture
def overflowing(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with fp16: the first steps overflow until the scale fits, and rows of metrics are of several steps."""
    scaler = partial(torch.amp.GradScaler, "cpu", init_scale=2.0**126)
    monkeypatch.setattr(assemble, "scaler", lambda precision, device: scaler())
    monkeypatch.setattr(loop, "ROWS", 1)


def test_an_overflow_that_the_scaler_left_out_is_no_fault(begin_here, overflowing: None, tmp_path: Path) -> None:
    begin_here(tmp_path / "run", {"minutes": 1e-6})
    assert finite(tmp_path / "run")
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert all(value is not None for row in rows for value in row.values())


@pytest.mark.parametrize("mode", ["stop", "skip", "rollback"])
def test_a_loss_that_is_lost_is_a_fault_under_a_scaler_too(
    mode: str, begin_here, overflowing: None, bits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Poison("input", math.nan, 17).give(monkeypatch)
    if mode == "stop":
        with pytest.raises(NonFiniteError, match="step 17 gave a loss of nan"):
            begin_here(tmp_path / "run")
    else:
        begin_here(tmp_path / "run", {"nonfinite": mode})
        assert bits(tmp_path / "run").state["run"]["skipped"] == [17]
    assert finite(tmp_path / "run")


def test_the_command_leaves_with_6_and_says_which_pictures(launch, begin, tmp_path: Path, undisturbed, bits) -> None:
    run = tmp_path / "run"

    def prepare() -> None:
        Poison("input", math.inf, 5).give(pytest.MonkeyPatch())

    process = launch(*begin(run), prepare=prepare)
    assert process.wait() == 6
    assert "step 5 gave a loss of nan" in process.said
    assert ".jpg" in process.said.splitlines()[-1]
    assert launch(*begin(run)).wait() == 0
    assert bits(run) == undisturbed.bits
