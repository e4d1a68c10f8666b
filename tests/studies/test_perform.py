"""Cells one by one and by several processes: the same numbers, whatever stops them."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from patchwords.errors import ResourceError
from patchwords.studies import perform
from patchwords.studies.cell import Cell
from patchwords.studies.outcome import Bench, known
from patchwords.studies.perform import Hand, RelayedError, one_by_one, together
from patchwords.training import recipe as recipes
from patchwords.training.signals import StoppedError
from patchwords.training.watch import Log

LONG = 60  # steps, each with a checkpoint
QUICK = """
import os
from patchwords.training import train
os.fsync = lambda _: None
train.report = lambda folder, _: (folder / "report.html").touch()
"""


class Again(str):
    """A command that makes another process, which is told it, as quick as this one."""

    def __reduce__(self) -> tuple[Callable[[str], object], tuple[str]]:
        return eval, (f"[exec({QUICK!r}), {str(self)!r}][1]",)


@pytest.fixture
def quick_bench(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setattr(perform, "PATIENCE", 0.05)
    return replace(bench, again=Again(bench.again))


@pytest.fixture
def ready(quick_bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Where processes come from one that has loaded all that they need."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["patchwords.studies.perform"])
    monkeypatch.setattr(multiprocessing, "get_context", lambda _: context)
    return quick_bench


def numbers(folder: Path, cells: Sequence[Cell]) -> dict[str, dict[str, float]]:
    """What each cell came to, but for the time that it took."""
    outcomes = {cell.name: known(folder, cell) for cell in cells}
    assert all(outcomes.values())
    return {
        name: {key: number for key, number in outcome.numbers.items() if key != "seconds"}
        for name, outcome in outcomes.items()
        if outcome
    }


def step(place: Path) -> int:
    """Of the newest checkpoint; 0 where there is none."""
    try:
        return int((place / "checkpoints" / "last").read_text().split()[0].removeprefix("step-"))
    except (OSError, IndexError):
        return 0


@pytest.fixture(scope="module")
def longer(cells: list[Cell]) -> list[Cell]:
    """The same four; that which begins with nothing learns for so long that somebody can come in between."""
    *others, scratch = cells
    return [*others, replace(scratch, recipe=recipes.read(scratch.recipe, {"duration": f"{LONG} steps"}))]


@pytest.fixture(scope="module")
def undisturbed(longer: list[Cell], tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, float]]:
    folder = tmp_path_factory.mktemp("undisturbed")
    list(one_by_one(longer, Bench(folder=folder, device="cpu", again="", watcher=Log())))
    return numbers(folder, longer)


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


def test_a_signal_within_a_training_stops_it_there(
    longer: list[Cell], bench: Bench, undisturbed: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Stop(Log):
        def step(self, done: int, total: int) -> None:
            if total == LONG and done == 5:
                os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(StoppedError) as stopped:
        list(one_by_one(longer, replace(bench, watcher=Stop())))
    assert stopped.value.exit_code == 143
    assert step(bench.folder / longer[-1].name) == 5
    list(one_by_one(longer, bench))
    assert numbers(bench.folder, longer) == undisturbed


def test_all_trainings_are_watched_as_one(bench: Bench, notes: Any) -> None:
    """What each of them says alike is said once."""
    once = perform.Once(notes)
    for remark in ("the same", "another", "the same"):
        once.note(remark)
    assert notes.notes == ["the same", "another"]


@pytest.fixture
def after(longer: list[Cell], bench: Bench) -> Iterator[Callable[[Callable[[], None]], None]]:
    """`after(what)` does it in a thread as soon as the longest training has made some steps."""
    over, threads = threading.Event(), []

    def begin(what: Callable[[], None]) -> None:
        def wait() -> None:
            while not over.wait(0.02):
                if step(bench.folder / longer[-1].name) > 2:
                    what()
                    return

        threads.append(threading.Thread(target=wait))
        threads[-1].start()

    yield begin
    over.set()
    for thread in threads:
        thread.join()


def test_two_at_once_come_to_what_one_by_one_come_to(
    longer: list[Cell], ready: Bench, notes: Any, undisturbed: dict[str, Any]
) -> None:
    done: list[Cell] = []
    for cell in together(longer, ready, 2):
        assert cell.after is None or cell.after in done
        assert known(ready.folder, cell)
        done.append(cell)
    assert sorted(cell.name for cell in done) == sorted(cell.name for cell in longer)
    assert numbers(ready.folder, longer) == undisturbed
    assert len(notes.notes) == len(set(notes.notes))
    assert not multiprocessing.active_children()


def test_sigterm_stops_all_at_once_and_going_on_comes_to_the_same(
    longer: list[Cell], quick_bench: Bench, undisturbed: dict[str, Any], after: Callable[..., None]
) -> None:
    after(lambda: os.kill(os.getpid(), signal.SIGTERM))
    with pytest.raises(StoppedError, match=r"saved; `patchwords study x --resume there` goes on") as stopped:
        list(together(longer, quick_bench, 2))
    assert stopped.value.exit_code == 143
    assert not multiprocessing.active_children()
    assert known(quick_bench.folder, longer[-1]) is None
    assert 2 < step(quick_bench.folder / longer[-1].name) < LONG
    list(one_by_one(longer, quick_bench))
    assert numbers(quick_bench.folder, longer) == undisturbed


def test_a_signal_to_all_processes_is_a_wish_and_no_accident(
    cells: list[Cell], ready: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `timeout` and batch systems send it."""
    give = perform._give

    def stopped(hands: Sequence[Hand], left: list[Cell], bench: Bench) -> None:
        give(hands, left, bench)
        for hand in hands:
            hand.process.terminate()
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(perform, "_give", stopped)
    with pytest.raises(StoppedError) as error:
        list(together(cells, ready, 2))
    assert error.value.exit_code == 143


def test_a_process_that_is_killed_is_named_by_what_it_worked_on(
    longer: list[Cell], ready: Bench, after: Callable[..., None]
) -> None:
    after(lambda: [child.kill() for child in multiprocessing.active_children()] and None)
    with pytest.raises(ResourceError, match=rf"code -9 .*{longer[-1].name}.*--resume there") as killed:
        list(together(longer[-1:], ready, 2))
    assert killed.value.exit_code == 5
    assert not multiprocessing.active_children()


@pytest.mark.parametrize("when", ["before it was told", "before it heard"])
def test_a_process_that_is_killed_before_it_begins_is_told_alike(
    when: str, cells: list[Cell], ready: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its line is closed, or holds what nobody read."""
    give = perform._give

    def given(hands: Sequence[Hand], left: list[Cell], bench: Bench) -> None:
        if when == "before it heard":
            give(hands, left, bench)
        for hand in hands:
            hand.process.kill()
            hand.process.join()
        give(hands, left, bench)

    monkeypatch.setattr(perform, "_give", given)
    with pytest.raises(ResourceError, match=rf"code -9 .*{cells[0].name}.*--at-once"):
        list(together(cells, ready, 2))


def test_an_error_in_a_process_keeps_its_sentence_and_its_code(cells: list[Cell], ready: Bench, tmp_path: Path) -> None:
    missing = recipes.read(cells[0].recipe, {"model": "", "weights": str(tmp_path / "none.safetensors")})
    wrong = replace(cells[0], recipe=missing)
    with pytest.raises(Exception, match=r"none\.safetensors") as alone:
        list(one_by_one([wrong], ready))
    with pytest.raises(RelayedError, match=r"none\.safetensors") as relayed:
        list(together([wrong], ready, 2))
    assert str(relayed.value) == str(alone.value)
    assert relayed.value.exit_code == alone.value.exit_code != 1
