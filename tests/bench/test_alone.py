"""Who else uses the GPU is found with a stand-in for nvidia-smi; a measurement waits for them, but not for ever."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from patchwords.bench import alone as room
from patchwords.bench.alone import alone


def answering(monkeypatch: pytest.MonkeyPatch, *answers: tuple[str, str]) -> None:
    """First the card and then the processes, time after time; the last answers stay."""
    every: Iterator[str] = iter([line for answer in answers for line in answer])
    last = answers[-1]

    def asked(words: list[str], **given: object) -> subprocess.CompletedProcess[str]:
        said = next(every, last["compute-apps" in words[2]])
        return subprocess.CompletedProcess(words, 0, stdout=said, stderr="")

    monkeypatch.setattr(subprocess, "run", asked)
    monkeypatch.setattr(room.time, "sleep", lambda seconds: None)


def test_nobody_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, ("4, 143771, 0\n", ""))
    found = alone()
    assert found.so
    assert found.sentence == "nobody else uses the GPU: 4 of 143,771 MiB are taken, 0 % busy"


def test_others_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, ("20000, 143771, 97\n", "812, 19500\n"), ("3000, 143771, 0\n", ""), ("4, 143771, 0\n", ""))
    assert alone().so


@pytest.mark.parametrize("answer", [("20000, 143771, 97\n", "812, 19500\n"), ("20000, 143771, 97\n", "")])
def test_who_stays_is_named(monkeypatch: pytest.MonkeyPatch, answer: tuple[str, str]) -> None:
    answering(monkeypatch, answer)
    found = alone(0.01)
    assert not found.so
    assert "20,000 of 143,771 MiB are taken, 97 % busy" in found.sentence
    assert found.sentence.endswith("processes: 812 with 19500 MiB" if answer[1] else "processes: none that can be seen")


def test_a_machine_without_the_program_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(room, "SMI", str(tmp_path / "nvidia-smi"))
    found = alone()
    assert not found.so
    assert "is not known: there is no" in found.sentence


def test_an_answer_that_is_none_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, ("[N/A], 143771, 0\n", ""))
    assert "does not tell" in alone().sentence
