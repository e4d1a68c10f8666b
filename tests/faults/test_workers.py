"""PROMISE 9: a process of the loader that is killed or hangs is noticed and replaced, and the bits stay the same."""

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from patchwords.data import workers
from patchwords.errors import ResourceError

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="who started whom is read in /proc")

LARGE = 4 << 20  # bytes: much more than a pipe holds


def children(pid: int) -> list[int]:
    """The processes that a process has started and that live."""
    return [other for other, parent in living().items() if parent == pid]


def living() -> dict[int, int]:
    """Every process by its number, with the one that started it."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = entry.read_text().rpartition(")")[2].split()[:2]
        except OSError:  # it ended while we looked
            continue
        if state != "Z":
            found[int(entry.parent.name)] = int(parent)
    return found


def test_runs_that_lose_processes_end_with_the_same_bits(launch, begin, undisturbed, bits, battery, tmp_path) -> None:
    chance, blows, runs = random.Random(0), 0, 0
    while blows < battery(5, 50):
        run, runs = tmp_path / f"run-{runs}", runs + 1
        process = launch(*begin(run), "--set", "data.workers=2", "--set", "data.timeout=0.3")
        while not process.ended():
            time.sleep(chance.uniform(0, 0.3))
            if victims := children(process.pid):
                strike(chance.choice(victims), chance.choice([signal.SIGKILL, signal.SIGSTOP]))
        assert process.wait() == 0, process.said
        told = process.said.count("a process of the loader was lost and replaced")
        assert bits(run) == undisturbed.bits
        blows += told
    assert runs <= 3 * battery(5, 50)


def strike(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:  # its work was done
        return


def large(number: int) -> np.ndarray:
    return np.full(LARGE, number, dtype=np.uint8)


def results(work: Callable[[int], np.ndarray], notes: list[str], count: int = 12) -> Iterator[int]:
    for array in workers.ordered(work, range(count), workers=2, timeout=0.5, note=notes.append):
        assert len(array) == LARGE
        yield int(array[-1])


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_one_that_is_lost_in_the_middle_of_an_answer_is_replaced(number: int) -> None:
    notes: list[str] = []
    others = set(children(os.getpid()))  # of tests before this one
    given = results(large, notes)
    assert next(given) == 0
    time.sleep(0.3)  # by now both have filled their pipes, and wait for somebody to read on
    for victim in set(children(os.getpid())) - others:
        strike(victim, number)
    assert list(given) == list(range(1, 12))
    assert len(notes) == 2


def test_a_long_pause_of_the_reader_is_nobodys_fault() -> None:
    notes: list[str] = []
    given = results(large, notes, 6)
    assert next(given) == 0
    time.sleep(1.2)  # longer than the timeout: an evaluation, a save, a debugger
    assert list(given) == list(range(1, 6))
    assert notes == []


def suicidal(number: int) -> np.ndarray:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def test_processes_that_all_die_are_given_up() -> None:
    notes: list[str] = []
    with pytest.raises(ResourceError, match="lost in a row"):
        list(results(suicidal, notes))
    assert len(notes) == workers.MOST_LOSSES


def failing(number: int) -> np.ndarray:
    raise ValueError(f"task {number}")


def test_an_error_of_the_work_comes_through_and_leaves_no_process_behind() -> None:
    others = set(children(os.getpid()))
    with pytest.raises(ValueError, match="task 0"):
        list(results(failing, []))
    assert set(children(os.getpid())) <= others


def test_no_process_outlives_a_killed_run(launch, begin, undisturbed, tmp_path) -> None:
    process = launch(*begin(tmp_path / "run"), "--set", "data.workers=2")
    while process.step < 2:
        assert not process.ended()
        time.sleep(0.01)
    left = children(process.pid)
    process.send(signal.SIGKILL)
    process.wait()
    limit = time.monotonic() + 10
    while living().keys() & set(left):
        assert time.monotonic() < limit
        time.sleep(0.02)
    assert len(left) == 2
