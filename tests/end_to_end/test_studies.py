"""`patchwords study`: every one of them on the built-in digits, in the smallest size that there is."""

import csv
import html
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from patchwords.studies.catalogue import EXPERIMENTS
from patchwords.studies.study import study
from patchwords.training import train as training

SHORT = {"learn.duration": "3 steps", "tune.duration": "2 steps"}
FEWER: dict[str, dict[str, Any]] = {
    "data-size": {"models": ["ViT", "ResNet small"], "shares": [0.1, 1.0]},
    "scaling": {
        "families": {"ViT": ["ViT small"], "ResNet": ["ResNet small"]},
        "durations": ["2 steps", "4 steps"],
    },
    "head": {"rates": [1e-3, 1e-2]},
    "shape": {"depth": [2], "width": [32], "mlp": [64], "patch": [4]},
    "optimizer": {"models": ["ResNet small"]},
}
TRAININGS = {"data-size": 8, "scaling": 8, "positions": 8, "head": 4, "shape": 5, "optimizer": 4}
TRAININGS |= {"self-supervision": 5, "resolution": 4, "transfer": 4}


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the disk's patience, and with an empty page for a training's report, which others test."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
    monkeypatch.setattr(training, "report", lambda folder, _: (folder / "report.html").touch())


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_study_comes_to_a_finding_on_the_digits(name: str, quick: None, tmp_path: Path) -> None:
    done = study(name, change=SHORT | FEWER.get(name, {}), device="cpu", out=tmp_path / "study")
    rows = list(csv.DictReader((done.folder / "results.csv").read_text().splitlines()))
    assert len(rows) == len(done.rows) == TRAININGS[name]
    assert not [row for row in done.rows if "lost" in row]
    assert json.loads((done.folder / "results.json").read_text())["rows"] == done.rows
    assert all(0 <= row.get("accuracy", 0) <= 1 and row["exaflops"] > 0 for row in done.rows)
    assert (done.folder / "figure.png").stat().st_size > 5000
    here, paper = done.finding
    assert re.search(r"\d", here.english)  # it has something to tell
    page = html.unescape(done.report.read_text())
    assert all(words in page for words in (*here, *paper))


def test_a_study_that_was_stopped_in_its_process_goes_on_in_another(tmp_path: Path) -> None:
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2]), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "patchwords", "study", "head"]
    settings = ["--set", "learn.duration=150 steps", "--set", "rates=[0.003]"]
    begin = [*command, *settings, "--device", "cpu", "--out", "study"]
    with subprocess.Popen(begin, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True) as process:
        first = tmp_path / "study" / "pre-training-ViT-class-token-0.003-seed-0"
        limit = time.monotonic() + 120
        while not (first / "checkpoints" / "last").exists() and time.monotonic() < limit and process.poll() is None:
            time.sleep(0.02)
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 143, said
    assert "`patchwords study head --resume study` goes on" in said
    assert not (first / "outcome.json").exists()
    again = [*command, "--resume", "study", "--device", "cpu", "--json", "--quiet"]
    done = subprocess.run(
        again, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=240
    )
    assert done.returncode == 0, done.stderr
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert any("going on after step" in line.get("note", "") for line in told)
    assert told[-1]["kind"] == "result"
    assert len((tmp_path / "study" / "results.csv").read_text().splitlines()) == 3
    assert (tmp_path / told[-1]["report"]).exists()
