"""PROMISE 1: a run that was killed, however often and whenever, ends with the bits of one that was not."""

import random
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.mark.parametrize("workers", [0, 2])
def test_killed_runs_end_with_the_same_bits(workers: int, launch, begin, undisturbed, bits, battery, tmp_path) -> None:
    chance, kills, runs = random.Random(workers), 0, 0
    while kills < battery(5, 25):
        run = tmp_path / f"run-{runs}"
        kills, runs = kills + killed(run, launch, begin, undisturbed.seconds, workers, chance), runs + 1
        assert bits(run) == undisturbed.bits
        assert (run / "report.html").exists()
        shutil.rmtree(run)


def killed(run: Path, launch: Callable, begin: Callable, seconds: float, workers: int, chance: random.Random) -> int:
    """Takes a run to its end, and returns how often it was killed on the way."""
    kills = 0
    while True:
        if not (run / "recipe.toml").exists() and run.exists():  # not begun: there is nothing to go on from
            shutil.rmtree(run)
        process = launch(*begin(run), "--set", f"data.workers={workers}")
        time.sleep(chance.uniform(0, seconds * 1.1**kills))  # longer and longer: a busy machine gets there too
        process.send(signal.SIGKILL)
        code = process.wait()
        if code == 0:
            return kills
        assert code == -signal.SIGKILL, process.said
        kills += 1
