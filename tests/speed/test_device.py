"""The device that is asked for, and what its driver is told before anything is done there."""

import os
from pathlib import Path

import pytest

from patchwords.speed.device import MPS, QUEUES, choose

NAME, MANY = QUEUES


@pytest.fixture(autouse=True)
def nobody_has_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(NAME, "")  # so that it will be as it was
    monkeypatch.delenv(NAME)
    monkeypatch.setenv(MPS[0], str(tmp_path / "missing"))


def test_streams_get_queues_of_their_own() -> None:
    choose("cpu")
    assert os.environ[NAME] == MANY


def test_what_somebody_has_said_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NAME, "4")
    choose("cpu")
    assert os.environ[NAME] == "4"


def test_who_shares_a_gpu_with_others_leaves_them_queues(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(MPS[0], str(tmp_path))
    choose("cpu")
    assert NAME not in os.environ
