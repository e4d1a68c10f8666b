"""Commands are run as a person runs them, in one process: arguments in, exit code, stdout and stderr out."""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import patchwords
from patchwords.cli import main


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str

    @property
    def json(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Answer]:
    monkeypatch.setattr("signal.signal", lambda *_: None)  # the test runner's own handlers stay

    def run(*words: str) -> Answer:
        monkeypatch.setattr(sys, "argv", ["patchwords", *words])
        with pytest.raises(SystemExit) as left:
            main()
        code = left.value.code
        return Answer(code if isinstance(code, int) else 0, *capsys.readouterr())

    return run


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data and a finished run, to be copied."""
    place = tmp_path_factory.mktemp("trained")
    labels = np.arange(40) % 2
    noise = np.random.default_rng(0).integers(0, 200, (40, 8, 8))
    images = (noise + 50 * labels[:, None, None]).astype(np.uint8)
    np.savez(place / "tiny.npz", images=images, labels=labels, classes=np.array(["even", "odd"]))
    flags: dict[str, Any] = {"recipe": "digits", "epochs": 2, "batch": 16, "lr": 1e-3, "device": "cpu"}
    changes = {"parts.depth": 1, "data.workers": 0, "data.crop.kind": "whole"}
    patchwords.train(place / "tiny.npz", **flags, change=changes, out=place / "done")
    return place
