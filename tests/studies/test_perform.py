"""Cells one by one: each is given when it is done, none is done twice, and a signal stops them in good order."""

import signal
from typing import Any

import pytest

from patchwords.studies import perform
from patchwords.studies.cell import Cell
from patchwords.studies.outcome import Bench, known
from patchwords.studies.perform import one_by_one
from patchwords.studies.together import together
from patchwords.training.signals import StoppedError


def test_each_cell_is_given_when_it_is_done(cells: list[Cell], bench: Bench) -> None:
    for number, cell in enumerate(one_by_one(cells, bench)):
        assert cell is cells[number]
        assert [known(bench.folder, each) is not None for each in cells] == [True] * (number + 1) + [False] * (
            3 - number
        )


def test_what_was_done_is_not_done_again(cells: list[Cell], bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    first = list(one_by_one(cells[:2], bench))
    before = (bench.folder / first[0].name / "outcome.json").stat().st_mtime_ns
    done: list[Cell] = []
    real = perform.perform
    monkeypatch.setattr(perform, "perform", lambda cell, bench: done.append(cell) or real(cell, bench))
    assert list(one_by_one(cells, bench)) == cells[2:]
    assert done == cells[2:]
    assert (bench.folder / first[0].name / "outcome.json").stat().st_mtime_ns == before
    assert list(one_by_one(cells, bench)) == list(together(cells, bench, 2)) == []


def test_a_signal_after_the_last_step_stops_the_study_too(
    cells: list[Cell], bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(perform, "perform", lambda cell, bench: signal.SIGTERM)
    with pytest.raises(StoppedError, match=r"saved; `patchwords study x --resume there` goes on") as stopped:
        list(one_by_one(cells, bench))
    assert stopped.value.exit_code == 143


def test_all_trainings_are_watched_as_one(bench: Bench, notes: Any) -> None:
    """What each of them says alike is said once."""
    once = perform.Once(notes)
    for remark in ("the same", "another", "the same"):
        once.note(remark)
    assert notes.notes == ["the same", "another"]
