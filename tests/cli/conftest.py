"""Commands are run as a person runs them, in one process: arguments in, exit code, stdout and stderr out."""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

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
