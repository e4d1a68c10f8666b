"""`patchwords train` without arguments: the built-in digits, from nothing to a model and a report."""

import json
import os
import re
import subprocess
import sys
import time
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
import torch

from patchwords.evaluation.classify import classify
from patchwords.training import train as training
from patchwords.training.train import Run, train


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A sixth of what the recipe takes."""
    return train(epochs=10, out=tmp_path_factory.mktemp("digits") / "run", device="cpu")


def test_a_few_epochs_are_enough_to_see_that_it_learns(digits: Run) -> None:
    assert digits.scores.count == 355
    assert digits.scores.accuracy > 0.6


def test_the_folder_tells_all_of_the_run(digits: Run) -> None:
    names = {path.name for path in digits.folder.iterdir()}
    assert names >= {"recipe.toml", "run.json", "classes.json", "data.json", "metrics.jsonl", "metrics.csv"}
    assert names >= {"predictions.npz", "checkpoints", "model.safetensors", "report.html"}
    known = json.loads((digits.folder / "run.json").read_text())
    assert known["status"] == "finished"
    assert known["data"] == "digits"
    assert known["environment"]["torch"] == torch.__version__
    assert json.loads((digits.folder / "classes.json").read_text()) == [str(digit) for digit in range(10)]
    assert json.loads((digits.folder / "data.json").read_text())["counts"] == {"train": 1442, "val": 355}


def test_the_metrics_are_of_every_epoch_and_agree_with_the_predictions(digits: Run) -> None:
    rows = [json.loads(line) for line in (digits.folder / "metrics.jsonl").read_text().splitlines()]
    judged = [row for row in rows if row["kind"] == "val"]
    assert [round(row["epoch"]) for row in judged] == list(range(1, 11))
    assert max(row["accuracy"] for row in judged) == pytest.approx(digits.scores.accuracy)
    losses = [row["loss"] for row in rows if row["kind"] == "train"]
    assert np.mean(losses[-5:]) < np.mean(losses[:5]) - 0.3
    assert len((digits.folder / "metrics.csv").read_text().splitlines()) == len(rows) + 1
    with np.load(digits.folder / "predictions.npz") as stored:
        assert classify(stored["logits"], stored["labels"]).accuracy == digits.scores.accuracy


def test_the_model_is_the_one_that_was_judged(digits: Run) -> None:
    from patchwords.data.sources.door import open_data
    from patchwords.data.transforms import normalise, prepare
    from patchwords.weights.load import card_of

    model, source = digits.model.eval(), open_data("digits").val
    preprocess = card_of(model).preprocess
    pictures = np.stack([prepare(source.picture(index), preprocess, 1) for index in range(len(source))])
    with torch.inference_mode():
        logits = model(normalise(torch.from_numpy(pictures), preprocess))
    assert card_of(model).classes == tuple("0123456789")
    with np.load(digits.folder / "predictions.npz") as stored:
        torch.testing.assert_close(logits, torch.from_numpy(stored["logits"]), atol=1e-4, rtol=1e-4)


class Links(HTMLParser):
    """What a page would fetch or run."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag in ("script", "link", "iframe"):
            self.found.append(tag)
        self.found += [value or "" for name, value in attributes if name in ("src", "href", "srcset", "data")]


def test_the_report_needs_nobody(digits: Run) -> None:
    text = digits.report.read_text()
    links = Links()
    links.feed(text)
    assert all(link.startswith(("data:", "#")) for link in links.found)
    assert not re.search(r"url\((?!['\"]?(#|data:))", text)
    assert f"{100 * digits.scores.accuracy:.1f}" in text


def test_another_seed_is_another_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "report", lambda *_: None)
    losses = []
    for number, seed in enumerate((1, 1, 2)):
        run = train(epochs=0.1, seed=seed, out=tmp_path / str(number), device="cpu").folder
        losses.append(re.findall(r'"loss": ([\d.]+)', (run / "metrics.jsonl").read_text()))
    assert losses[0] == losses[1] != losses[2]


@pytest.mark.slow
def test_the_command_alone_reaches_97_percent_in_about_two_minutes(tmp_path: Path) -> None:
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    start = time.monotonic()
    command = [sys.executable, "-m", "patchwords", "train"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    accuracy = re.search(r"accuracy ([\d.]+) % on 355 pictures", done.stdout)
    assert accuracy
    assert float(accuracy[1]) >= 97.0
    assert "report.html" in done.stdout.splitlines()[-1]  # what to do next
    assert (tmp_path / "runs" / "digits-1" / "report.html").exists()
    assert time.monotonic() - start < 300  # on a machine that may do something else beside it
