"""Work done by other processes: in order, whole and the same, whatever happens to them; and none is left behind."""

import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from patchwords.data import workers
from patchwords.errors import DataError, ResourceError

TIMEOUT = 60.0  # never reached where nothing hangs


def square(number: int) -> int:
    return number * number


def slow_first(number: int) -> int:
    time.sleep(0.05 if number % 4 == 0 else 0)
    return number


def who(_: int) -> int:
    return os.getpid()


def large(number: int) -> bytes:
    return bytes([number]) * 4_000_000  # far more than a pipe holds


def pixels(number: int) -> np.ndarray:
    return np.random.default_rng(number).integers(0, 256, (100, 500), dtype=np.uint8)


def refuse(number: int) -> int:
    if number == 3:
        raise DataError("picture 3 is torn")
    return number


def die(number: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return number


def interrupt(number: int) -> int:
    os.kill(os.getpid(), signal.SIGINT)
    return number


@dataclass(frozen=True)
class Once:
    """Squares; the first process that comes to task 3 gets a signal."""

    marker: Path
    number: signal.Signals
    work: Callable[[int], Any] = square

    def __call__(self, task: int) -> Any:
        if task == 3 and not self.marker.exists():
            self.marker.touch()
            os.kill(os.getpid(), self.number)
        return self.work(task)


def ordered(
    work: Callable[[int], object],
    tasks: Iterator[int] | range,
    count: int,
    timeout: float = TIMEOUT,
    notes: list[str] | None = None,
    room: int = 0,
    stop: threading.Event | None = None,
) -> Iterator[Any]:
    note = (notes if notes is not None else []).append
    return workers.ordered(work, tasks, workers=count, timeout=timeout, note=note, room=room, stop=stop)


def is_gone(process: int) -> bool:
    """Neither running nor a zombie."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    return False


# Results


@pytest.mark.parametrize("count", [0, 1, 4])
def test_results_come_in_the_order_of_the_tasks(count: int) -> None:
    assert list(ordered(square, range(30), count)) == [number * number for number in range(30)]
    assert list(ordered(slow_first, range(12), count)) == list(range(12))


@pytest.mark.parametrize("count", [0, 1, 3])
def test_no_tasks_give_no_results(count: int) -> None:
    assert list(ordered(square, range(0), count)) == []


def test_fewer_tasks_than_processes_are_all_done() -> None:
    assert list(ordered(square, range(2), 4)) == [0, 1]


def test_the_work_is_done_by_so_many_other_processes() -> None:
    assert set(ordered(who, range(9), 0)) == {os.getpid()}
    others = set(ordered(who, range(40), 3))
    assert os.getpid() not in others
    assert 1 <= len(others) <= 3


@pytest.mark.parametrize("count", [1, 3])
def test_results_larger_than_a_pipe_come_whole(count: int) -> None:
    for number, found in enumerate(ordered(large, range(6), count)):
        assert found == large(number)


# Shared memory


@pytest.mark.parametrize("room", [0, 1 << 12, 1 << 16, 1 << 20], ids=["none", "too little", "just enough", "plenty"])
@pytest.mark.parametrize("count", [0, 1, 3])
def test_arrays_come_whole_and_in_order_however_much_room_there_is(count: int, room: int) -> None:
    for number, found in enumerate(ordered(pixels, range(40), count, room=room)):
        assert np.array_equal(found, pixels(number))


def test_results_that_are_kept_stay_as_they_are_while_others_come() -> None:
    kept = list(ordered(pixels, range(60), 2, room=1 << 16))  # far more than there are slots
    for number, found in enumerate(kept):
        assert np.array_equal(found, pixels(number))


def test_slots_are_used_again_so_that_none_runs_out(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = []
    take = workers.Arena.take
    monkeypatch.setattr(workers.Arena, "take", lambda self: taken.append(take(self)) or taken[-1])
    for found in ordered(pixels, range(100), 2, room=1 << 16):
        assert found.shape == (100, 500)
    assert None not in taken
    assert len(set(taken)) < 2 * workers.SLOTS


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
@pytest.mark.parametrize("count", [1, 3])
def test_a_lost_process_changes_no_array(count: int, number: signal.Signals, tmp_path: Path) -> None:
    notes: list[str] = []
    work = Once(tmp_path / "lost", number, pixels)
    timeout = TIMEOUT if number == signal.SIGKILL else 0.5
    for place, found in enumerate(ordered(work, range(30), count, timeout, notes, room=1 << 16)):
        assert np.array_equal(found, pixels(place))
    assert len(notes) == 1


def test_an_error_gives_its_slot_back() -> None:
    results = ordered(refuse, range(9), 1, room=1 << 16)
    with pytest.raises(DataError, match="picture 3 is torn"):
        list(results)


def test_asked_to_stop_it_ends_even_if_nobody_answers(tmp_path: Path) -> None:
    stop = threading.Event()
    results = ordered(Once(tmp_path / "hung", signal.SIGSTOP), range(12), 1, stop=stop)
    threading.Timer(0.3, stop.set).start()
    assert list(results) == [0, 1, 4]
    assert children() == []


def test_there_may_be_no_limit_to_the_time_of_a_task() -> None:
    assert list(ordered(square, range(5), 2, timeout=float("inf"))) == [0, 1, 4, 9, 16]


def test_tasks_are_taken_no_further_ahead_than_they_are_shared_out() -> None:
    taken = itertools.count()
    with closing(ordered(square, map(int, taken), 2)) as results:  # type: ignore[type-var]
        for _ in range(5):
            next(results)
        time.sleep(0.1)
        assert next(taken) <= 5 + 2 * 2 * workers.AHEAD  # given to two processes, and done before their turn


def test_as_many_processes_as_cores_up_to_sixteen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    for cores, wanted in ((1, 1), (6, 6), (96, 16)):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _, cores=cores: set(range(cores)), raising=False)
        assert workers.automatic() == wanted
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "8")  # torchrun's processes share the machine
    assert workers.automatic() == 12
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "200")
    assert workers.automatic() == 1


# What goes wrong


@pytest.mark.parametrize("count", [1, 4])
def test_a_killed_process_is_replaced_and_nothing_changes(count: int, tmp_path: Path) -> None:
    notes: list[str] = []
    work = Once(tmp_path / "killed", signal.SIGKILL)
    assert list(ordered(work, range(12), count, notes=notes)) == [number * number for number in range(12)]
    (note,) = notes
    assert "died" in note
    assert "same result" in note


@pytest.mark.parametrize("count", [1, 3])
def test_a_hung_process_is_replaced_after_the_timeout(count: int, tmp_path: Path) -> None:
    notes: list[str] = []
    work = Once(tmp_path / "hung", signal.SIGSTOP)
    found = list(ordered(work, range(12), count, timeout=0.3, notes=notes))
    assert found == [number * number for number in range(12)]
    (note,) = notes
    assert "silent for 0.3 seconds" in note


def test_a_process_that_stops_in_the_middle_of_an_answer_is_replaced_too() -> None:
    notes: list[str] = []
    with closing(ordered(large, range(4), 1, timeout=0.3, notes=notes)) as results:  # type: ignore[type-var]
        next(results)
        time.sleep(0.3)  # by now the next answer fills the pipe
        (process,) = children()
        os.kill(process, signal.SIGSTOP)
        assert [found == large(number) for number, found in enumerate(results, start=1)] == [True] * 3
    assert len(notes) == 1
    assert is_gone(process)


def test_waiting_for_one_is_not_held_against_another() -> None:
    notes: list[str] = []
    with closing(ordered(large, range(6), 2, timeout=0.3, notes=notes)) as results:  # type: ignore[type-var]
        next(results)
        time.sleep(0.3)
        for process in children():
            os.kill(process, signal.SIGSTOP)
        assert [found == large(number) for number, found in enumerate(results, start=1)] == [True] * 5
    assert len(notes) == 2


def test_one_that_died_while_nobody_looked_is_replaced_once() -> None:
    notes: list[str] = []
    with closing(ordered(square, range(20), 1, timeout=0.2, notes=notes)) as results:  # type: ignore[type-var]
        assert next(results) == 0
        (process,) = children()
        os.kill(process, signal.SIGKILL)
        time.sleep(0.4)  # an evaluation that takes longer than the timeout
        assert list(results) == [number * number for number in range(1, 20)]
    assert len(notes) == 1


def test_whoever_takes_the_results_may_take_longer_than_the_timeout() -> None:
    notes: list[str] = []
    for number, found in enumerate(ordered(large, range(4), 2, timeout=0.2, notes=notes)):
        assert found == large(number)
        time.sleep(0.25)
    assert notes == []


@pytest.mark.parametrize("count", [0, 1, 4])
def test_an_exception_in_the_work_is_raised_here(count: int) -> None:
    results = ordered(refuse, range(9), count)
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(DataError, match="picture 3 is torn"):
        list(results)
    assert children() == []


def test_too_many_losses_in_a_row_are_an_error_that_says_what_to_do() -> None:
    notes: list[str] = []
    with pytest.raises(ResourceError, match=r"11 processes of the loader were lost in a row .*data\.workers") as caught:
        list(ordered(die, range(5), 1, notes=notes))
    assert caught.value.exit_code == 5
    assert len(notes) == workers.MOST_LOSSES
    assert children() == []


def test_ctrl_c_is_left_to_whoever_leads() -> None:
    notes: list[str] = []
    assert list(ordered(interrupt, range(6), 2, notes=notes)) == list(range(6))
    assert notes == []


# What is left behind


def children() -> list[int]:
    """The processes that this one has started and not yet taken leave of, zombies among them."""
    path = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children")
    if not path.exists():
        pytest.skip("this system does not tell a process's children")
    return [int(word) for word in path.read_text().split()]


def test_no_process_is_left_when_all_is_done() -> None:
    found = set(ordered(who, range(20), 3))
    assert children() == []
    assert all(is_gone(process) for process in found)


def test_no_process_is_left_when_the_results_are_not_wanted_any_more() -> None:
    with closing(ordered(who, itertools.count(), 3)) as results:  # type: ignore[type-var]
        found = {next(results) for _ in range(9)}
        assert len(children()) == 3
    assert children() == []
    assert all(is_gone(process) for process in found)


def test_no_process_is_left_when_a_loop_over_the_results_is_left() -> None:
    for found in ordered(square, itertools.count(), 2):
        if found == 25:
            break
    assert children() == []


def test_stopped_processes_are_closed_too() -> None:
    with closing(ordered(who, itertools.count(), 2)) as results:  # type: ignore[type-var]
        next(results)
        for process in children():
            os.kill(process, signal.SIGSTOP)
    assert children() == []


LEADER = """
import itertools, sys, time
from patchwords.data import workers

import numpy

def work(number):
    return {"idle": number, "pipe": bytes(2_000_000), "shared": numpy.zeros(2_000_000)}[sys.argv[1]]

results = workers.ordered(work, itertools.count(), workers=3, timeout=60, note=print, room=20_000_000)
next(results)
with open(f"/proc/self/task/{__import__('os').getpid()}/children") as file:
    print(file.read(), flush=True)
time.sleep(60)
"""


def shared_files() -> list[str]:
    """Memory that has a name, and would stay for ever."""
    return sorted(os.listdir("/dev/shm")) if os.path.isdir("/dev/shm") else []


@pytest.mark.parametrize("answer", ["idle", "pipe", "shared"])
def test_no_process_and_no_memory_outlives_a_leader_that_was_killed(answer: str) -> None:
    children()  # skips where there is no such file
    before = shared_files()
    leader = subprocess.Popen([sys.executable, "-c", LEADER, answer], stdout=subprocess.PIPE, text=True)
    assert leader.stdout is not None
    found = [int(word) for word in leader.stdout.readline().split()]
    leader.kill()
    leader.wait()
    leader.stdout.close()
    assert len(found) == 3
    deadline = time.monotonic() + 5
    while not all(is_orphan_gone(process) for process in found) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert [process for process in found if not is_orphan_gone(process)] == []
    assert not set(shared_files()) - set(before)


def is_orphan_gone(process: int) -> bool:
    """Dead; whether its foster parent has buried it is not ours to say."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True
