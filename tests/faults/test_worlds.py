"""PROMISES 10 and 11: any number of processes sees the same pictures in the same order, also after a resume."""

import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from patchwords.data.finish import Finish
from patchwords.data.order import Order, share
from patchwords.objectives import supervised
from patchwords.training import loop
from patchwords.training.update import Update

STEADY = ("--set", "parts.dropout=0.0", "--set", "parts.weight_dropout=0.0", "--set", "parts.stochastic_depth=0.0")
STEPS, BATCH, PICTURES = 24, 8, 48


@pytest.fixture
def together(launch, port: int) -> Callable[..., list[Any]]:
    """`together(size, ...)` launches a command in as many processes as one world."""

    def begin(size: int, *words: object, prepare: Callable[[int], None] = lambda rank: None) -> list[Any]:
        place = {"WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        return [
            launch(*words, prepare=partial(prepare, rank), environment={**place, "RANK": f"{rank}", "LOCAL_RANK": "0"})
            for rank in range(size)
        ]

    return begin


def noted(folder: Path, rank: int) -> None:
    """From now on this process writes down what it is shown; a row of metrics is of several steps."""
    before, file = Update.__call__, folder / f"shown-{rank}.jsonl"
    loop.ROWS = 2

    def update(self: Update, loaded: Any, step: int, progress: float) -> Any:
        with file.open("a") as lines:
            shown = {"step": step, "indices": loaded.indices.tolist(), "views": loaded.views.tolist()}
            lines.write(json.dumps(shown) + "\n")
        return before(self, loaded, step, progress)

    Update.__call__ = update  # type: ignore[method-assign]


def shown(folder: Path, size: int) -> dict[int, tuple[list[int], list[int]]]:
    """Pictures and views of every step, the parts of the processes put together by rank."""
    parts = [(folder / f"shown-{rank}.jsonl").read_text().splitlines() for rank in range(size)]
    every: dict[int, tuple[list[int], list[int]]] = {}
    for part in parts:
        for row in map(json.loads, part):
            indices, views = every.setdefault(row["step"], ([], []))
            indices += row["indices"]
            views += row["views"]
    return every


def losses(run: Path, kind: str = "train") -> dict[int, float]:
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return {row["step"]: row["loss"] for row in rows if row["kind"] == kind}


def judged(run: Path) -> tuple[list[int], set[int]]:
    """The pictures that the result was judged by, and the counts of all evaluations."""
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    with np.load(run / "predictions.npz") as stored:
        return stored["indices"].tolist(), {row["count"] for row in rows if row["kind"] == "val"}


@pytest.fixture
def alone(launch, begin, undisturbed, tmp_path: Path) -> Path:
    """The run of one process, without dropout."""
    (tmp_path / "alone").mkdir()
    process = launch(*begin(tmp_path / "run-1"), *STEADY, prepare=partial(noted, tmp_path / "alone", 0))
    assert process.wait() == 0, process.said
    return tmp_path / "run-1"


@pytest.mark.parametrize("size", [2, 3])
def test_many_processes_are_as_one(size: int, together, begin, alone: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    for process in together(size, *begin(run), *STEADY, prepare=partial(noted, tmp_path)):
        assert process.wait() == 0, process.said
    assert shown(tmp_path, size) == shown(tmp_path / "alone", 1)
    for kind in ("train", "val"):
        assert losses(run, kind) == pytest.approx(losses(alone, kind), abs=1e-4)
    assert judged(run) == judged(alone) == (list(range(12)), {12})


def test_a_run_goes_on_with_another_number_of_processes(together, begin, alone: Path, tmp_path: Path) -> None:
    run, sizes = tmp_path / "run", (1, 2, 3, 1)
    for number, size in enumerate(sizes):
        until = STEPS if number == len(sizes) - 1 else 5 + 6 * number
        folder = tmp_path / f"part-{number}"
        folder.mkdir()
        prepare = partial(stop_at, folder, until, size - 1)
        every = together(size, *begin(run), *(STEADY if number == 0 else ()), prepare=prepare)
        for process in every:
            assert process.wait() == (0 if until == STEPS else 143), process.said
        if number:
            assert f"the number of processes is {size} now and was 1 before" in every[0].said or size == 1
    every = {}
    for number, size in enumerate(sizes):
        every |= shown(tmp_path / f"part-{number}", size)
    assert every == shown(tmp_path / "alone", 1)
    for kind in ("train", "val"):
        assert losses(run, kind) == pytest.approx(losses(alone, kind), abs=1e-4)


def stop_at(folder: Path, step: int, hears: int, rank: int) -> None:
    """Writes down what it is shown; one of them is told to stop after so many steps, and all do."""
    noted(folder, rank)
    before = Update.__call__

    def update(self: Update, loaded: Any, number: int, progress: float) -> Any:
        if number + 1 == step:
            os.kill(os.getpid(), signal.SIGTERM)
        return before(self, loaded, number, progress)

    if step < STEPS and rank == hears:
        Update.__call__ = update  # type: ignore[method-assign]


@pytest.mark.parametrize("size", [1, 2, 3, 4, 8])
def test_every_share_is_whole_pairs_and_together_they_are_the_batch(size: int) -> None:
    for batch in (16, 17, 50, 64):
        parts = [range(batch)[share(batch, rank, size)] for rank in range(size)]
        assert [place for part in parts for place in part] == list(range(batch))
        assert all(part.start % 2 == 0 and len(part) >= 2 for part in parts)


@pytest.mark.parametrize("repeats", [1, 3])
def test_on_any_worlds_every_picture_comes_as_often_in_every_pass(repeats: int) -> None:
    order, batch = Order(7, PICTURES, repeats), 20
    length = PICTURES * repeats
    places: list[tuple[int, int]] = []
    for step in range(3 * length // batch):
        size = (1, 2, 3, 4, 8)[step % 5]  # another world at every step
        for rank in range(size):
            part = range(batch)[share(batch, rank, size)]
            indices, views = order.take(step * batch + part.start, step * batch + part.stop)
            places += zip(indices.tolist(), views.tolist(), strict=True)
    for number in range(len(places) // length):
        seen = sorted(places[number * length : (number + 1) * length])
        assert seen == sorted((i, number * repeats + r) for i in range(PICTURES) for r in range(repeats))


def test_one_that_dies_takes_the_others_along_and_the_run_goes_on(
    together, begin, bits, undisturbed, battery, tmp_path: Path
) -> None:
    for process in together(2, *begin(tmp_path / "whole")):
        assert process.wait() == 0, process.said
    for number in range(battery(1, 20)):
        run = tmp_path / f"run-{number}"
        every = together(2, *begin(run))
        while every[0].step < 1 + number and not every[0].ended():
            time.sleep(0.005)
        every[number % 2].send(signal.SIGKILL)
        for process in every:
            assert process.wait(30) != 0
        for process in together(2, *begin(run)):
            assert process.wait() == 0, process.said
        assert bits(run) == bits(tmp_path / "whole")


@pytest.mark.parametrize(("mode", "code"), [("stop", 6), ("skip", 0), ("rollback", 0)])
def test_what_one_of_them_finds_is_everybodys(
    mode: str, code: int, together, begin, undisturbed, tmp_path: Path
) -> None:
    """A loss that is no number, in the part of the second process alone, and with gradients that are fine."""

    def prepare(rank: int) -> None:
        finish, loss, step = Finish.__call__, supervised.cross_entropy, [0]

        def finished(self: Finish, *arguments: Any, **options: Any) -> Any:
            step[0] = options["step"]
            return finish(self, *arguments, **options)

        def lost(*arguments: Any) -> Any:
            return loss(*arguments) + (math.nan if rank == 1 and step[0] == 5 else 0.0)

        Finish.__call__, supervised.cross_entropy = finished, lost  # type: ignore[method-assign]

    run = tmp_path / "run"
    for process in together(2, *begin(run), "--set", f"nonfinite={mode}", prepare=prepare):
        assert process.wait(60) == code, process.said
    if code == 0:
        last = run / "checkpoints" / (run / "checkpoints" / "last").read_text().split()[0]
        assert json.loads((last / "state.json").read_text())["run"]["skipped"] == [5]
        assert all(map(math.isfinite, losses(run).values()))


def test_the_command_works_under_torchrun(photos: Path, recipe: Path, port: int, tmp_path: Path) -> None:
    """In interpreters of its own, as a person would."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).parents[2])}
    runner = ["-m", "torch.distributed.run", "--nproc_per_node", "2", "--master_addr", "127.0.0.1"]
    command = ["-m", "patchwords", "train", photos, "--recipe", recipe, "--out", tmp_path / "run", "--device", "cpu"]
    done = subprocess.run(
        [
            sys.executable,
            *runner,
            "--master_port",
            str(port),
            *command,
            "--json",
            "--set",
            "duration='3 steps'",
        ],  # one row, with the evaluation
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    results = [json.loads(line) for line in done.stdout.splitlines()]
    assert len([row for row in results if row["kind"] == "result"]) == 1  # one process speaks
    assert [row["count"] for row in results if row["kind"] == "val"] == [12]
    assert '"world_size": 2' in (tmp_path / "run" / "run.json").read_text()
    assert losses(tmp_path / "run").keys() == {3}
