"""The device that is asked for, and what its driver is told before anything is done there."""

import os

import pytest

from patchwords.speed.device import QUEUES, choose

NAME, MANY = QUEUES


@pytest.mark.parametrize("said", ["", "4"])
def test_streams_get_a_queue_each_unless_somebody_said_otherwise(said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NAME, said)
    if not said:
        monkeypatch.delenv(NAME)
    choose("cpu")
    assert os.environ[NAME] == (said or MANY)
