"""Cells by several processes: the same numbers as one by one, whatever stops them."""

import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from patchwords import cli
from patchwords.data.sources.source import Data
from patchwords.errors import ResourceError, UsageError
from patchwords.studies import together as processes
from patchwords.studies.cell import Cell
from patchwords.studies.outcome import Bench, known
from patchwords.studies.perform import one_by_one
from patchwords.studies.together import Hand, RelayedError, together
from patchwords.training import recipe as recipes
from patchwords.training.signals import StoppedError, listening
from patchwords.training.watch import Log

LONG = 60  # steps, each with a checkpoint
QUICK = """
import os
from patchwords.training import train
os.fsync = lambda _: None
train.report = lambda folder, _: (folder / "report.html").touch()
"""

SCRIPT = """
import os, pickle, signal
from pathlib import Path
from patchwords.studies import together as processes

def study():
    cells, bench = pickle.loads(Path({work!r}).read_bytes())
    return list(processes.together(cells, bench, 2))

"""
GUARD = """
if __name__ == "__main__":
    study()
"""
INTERRUPTED = """
work = processes._work

def interrupted():
    os.kill(os.getpid(), signal.SIGINT)
    return work

class Interrupted:
    def __reduce__(self):
        return interrupted, ()

    def __call__(self):
        pass

if __name__ == "__main__":
    processes._work = Interrupted()
    study()
"""


class Again(str):
    """A command that makes another process, which is told it, as quick as this one; or does `more` there."""

    more = ""

    def __reduce__(self) -> tuple[Callable[[str], object], tuple[str]]:
        return eval, (f"[exec({QUICK + self.more!r}), {str(self)!r}][1]",)


class Target:
    """What a process does as soon as it finds out what to do, and before it has loaded anything."""

    def __init__(self, what: Callable[..., object], *arguments: object):
        self.what = what, arguments

    def __reduce__(self) -> Any:
        return self.what

    def __call__(self) -> None:
        """As a target can be called."""


@pytest.fixture
def quick_bench(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setattr(processes, "PATIENCE", 0.05)
    return replace(bench, again=Again(bench.again))


@pytest.fixture
def limit() -> Iterator[None]:
    """What waits for ever fails, also where other signals are only wishes."""

    def late(number: int, frame: object) -> None:
        raise AssertionError("it did not end")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(120)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def large(cells: list[Cell], shades: Callable[..., Data]) -> list[Cell]:
    """With more pictures than a pipe holds while nobody reads it."""
    many = [replace(cells[0], data=shades(train=8000, val=12))]
    assert len(pickle.dumps(many)) > 1_000_000
    return many


@pytest.fixture
def script(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """`script(text, cells, bench)` runs it in a process of its own, as `study`, which performs two at once."""
    begun: list[subprocess.Popen[str]] = []

    def run(text: str, cells: Sequence[Cell], bench: Bench) -> subprocess.Popen[str]:
        file, work = tmp_path / "script.py", tmp_path / "work"
        work.write_bytes(pickle.dumps((cells, replace(bench, watcher=Log()))))
        file.write_text(SCRIPT.format(work=str(work)) + text)
        words, pipe = [sys.executable, str(file)], subprocess.PIPE
        begun.append(subprocess.Popen(words, stdout=pipe, stderr=subprocess.STDOUT, text=True, cwd=Path.cwd()))
        return begun[-1]

    yield run
    for process in begun:
        process.kill()
        process.communicate()


@pytest.fixture
def ready(quick_bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Where processes come from one that has loaded all that they need."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["patchwords.studies.together"])
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
    give = processes._give

    def stopped(hands: Sequence[Hand], left: list[Cell], bench: Bench) -> None:
        give(hands, left, bench)
        for hand in hands:
            hand.process.terminate()
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(processes, "_give", stopped)
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
    give = processes._give

    def given(hands: Sequence[Hand], left: list[Cell], bench: Bench) -> None:
        if when == "before it heard":
            give(hands, left, bench)
        for hand in hands:
            hand.process.kill()
            hand.process.join()
        give(hands, left, bench)

    monkeypatch.setattr(processes, "_give", given)
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


@pytest.mark.usefixtures("limit")
def test_a_process_that_dies_while_it_starts_is_waited_for_by_nobody(
    large: list[Cell], quick_bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However much it was to be given."""
    monkeypatch.setattr(processes, "_work", Target(os._exit, 7))
    with pytest.raises(ResourceError, match=r"code 7 while it started .*__main__.*--resume there"):
        list(together(large, quick_bench, 2))
    assert not multiprocessing.active_children()


@pytest.mark.usefixtures("limit")
def test_a_process_that_dies_while_it_is_given_its_work_is_waited_for_by_nobody(
    large: list[Cell], ready: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    equip = processes._equip

    def dying(hands: Sequence[Hand], *others: Any) -> None:
        for hand in hands:
            hand.process.kill()
        equip(hands, *others)

    monkeypatch.setattr(processes, "_equip", dying)
    with pytest.raises(ResourceError, match=r"code -9 while it started"):
        list(together(large, ready, 2))


@pytest.mark.usefixtures("limit")
def test_who_waits_for_a_process_to_start_can_stop(
    cells: list[Cell], quick_bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "_work", Target(time.sleep, 600))
    equip = processes._equip

    def asked(*work: Any) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        equip(*work)

    monkeypatch.setattr(processes, "_equip", asked)
    with pytest.raises(StoppedError) as stopped:
        list(together(cells, quick_bench, 2))
    assert stopped.value.exit_code == 143
    assert not multiprocessing.active_children()


def test_ctrl_c_between_two_starts_starts_no_more(
    longer: list[Cell], ready: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    started, real = [], processes._started

    def interrupted(threads: int) -> Hand:
        os.kill(os.getpid(), signal.SIGINT)
        started.append(real(threads))
        return started[-1]

    monkeypatch.setattr(processes, "_started", interrupted)
    with pytest.raises(StoppedError) as stopped:
        list(together(longer, ready, 2))
    assert stopped.value.exit_code == 130
    assert len(started) == 1
    assert not multiprocessing.active_children()
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_a_process_hears_no_ctrl_c_while_it_starts(cells: list[Cell], quick_bench: Bench, script: Any) -> None:
    """Not even the first that its own parent starts."""
    begun = script(INTERRUPTED, cells[:1], quick_bench)
    said, _ = begun.communicate(timeout=120)
    assert (begun.returncode, said) == (0, "")
    assert known(quick_bench.folder, cells[0])


def test_a_process_of_multiprocessing_starts_none(
    cells: list[Cell], bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(multiprocessing, "parent_process", multiprocessing.current_process)
    with pytest.raises(UsageError, match=r'under `if __name__ == "__main__":`'):
        list(together(cells, bench, 2))
    assert not multiprocessing.active_children()


def test_a_script_that_begins_when_it_is_imported_is_told_what_to_do(
    large: list[Cell], bench: Bench, script: Any
) -> None:
    begun = script("study()\n", large, bench)
    said, _ = begun.communicate(timeout=120)
    assert begun.returncode == 1
    assert f"cannot perform several trainings at once: {processes.GUARD}" in said
    assert "ended with code 1 while it started (-9 is want of memory, most often; where a script of your own" in said


def test_processes_end_when_the_one_that_started_them_is_killed(
    longer: list[Cell], quick_bench: Bench, undisturbed: dict[str, Any], script: Any, after: Callable[..., None]
) -> None:
    begun = script(GUARD, longer[-1:], quick_bench)
    after(begun.kill)
    said, _ = begun.communicate(timeout=120)  # which ends when nobody can say anything any more
    assert (begun.returncode, said) == (-9, "")
    assert 2 < step(quick_bench.folder / longer[-1].name) < LONG
    list(one_by_one(longer, quick_bench))
    assert numbers(quick_bench.folder, longer) == undisturbed


@pytest.mark.parametrize(
    "error",
    [
        ZeroDivisionError("division by zero"),
        MemoryError(),
        FileNotFoundError(2, "No such file or directory", "picture.png"),
        OSError(28, "No space left on device"),
        EOFError("a file that ends too early"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_whatever_goes_wrong_in_a_process_is_said_as_the_command_says_it(
    error: Exception, cells: list[Cell], ready: Bench, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    def wrong(*nothing: object, **settings: object) -> None:
        raise error

    monkeypatch.setattr(cli, "app", wrong)
    with listening(), pytest.raises(SystemExit) as left:  # which puts back what the command does to signals
        cli.main()
    command = capfd.readouterr().err
    again = Again(ready.again)
    again.more = (
        f"import pickle\nfrom patchwords.studies import together\nerror = pickle.loads({pickle.dumps(error)!r})\n"
    )
    again.more += "def wrong(cell, bench, error=error): raise error\ntogether.perform = wrong"
    with pytest.raises(RelayedError) as relayed:
        list(together(cells, replace(ready, again=again), 2))
    assert (f"patchwords: {relayed.value}\n", relayed.value.exit_code) == (command, left.value.code)


def test_a_bug_in_a_process_shows_where_it_is(cells: list[Cell], quick_bench: Bench, capfd: Any) -> None:
    """Also before it works on anything."""
    again = Again("")
    again.more = "1 / 0"
    with pytest.raises(RelayedError, match="a bug: ZeroDivisionError: division by zero; please report"):
        list(together(cells, replace(quick_bench, again=again), 1))
    assert "Traceback" in (said := capfd.readouterr().err)
    assert "in _work" in said
