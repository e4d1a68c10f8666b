"""Work done by other processes, its results in order; a process that dies or hangs is replaced and nothing changes.

Nothing can change, because a result is a pure function of its task. Arrays in a result travel through shared memory
(`patchwords.data.arena`), the rest through a pipe.
"""

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Generic, TypeVar

from patchwords.data.arena import Arena, Parcel
from patchwords.errors import ResourceError

AHEAD = 2  # tasks that each process is given at a time
SLOTS = 3 * AHEAD  # of shared memory for each process: what it works on, what waits for its turn, what is in use
MOST_LOSSES = 10  # of processes, without a result between them

Task = TypeVar("Task")
Result = TypeVar("Result")
Numbered = tuple[int, Any, int | None]  # a task with its number, and the slot for its result
Answer = tuple[Any, Exception | None]


def automatic() -> int:
    """As many processes as there are cores for this one, up to sixteen; torchrun's share those of the machine."""
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    return max(1, min(cores // int(os.environ.get("LOCAL_WORLD_SIZE", "1")), 16))


def ordered(
    work: Callable[[Task], Result],
    tasks: Iterable[Task],
    *,
    workers: int,
    timeout: float,
    note: Callable[[str], None],
    room: int = 0,
    stop: threading.Event | None = None,
) -> Iterator[Result]:
    """`work(task)` for every task, in their order, until `stop`; `note` hears of processes that were replaced.

    Up to `room` bytes of a result's arrays come through shared memory; more come too, and slower.
    """
    if workers == 0:
        yield from map(work, tasks)
        return
    crew = Crew(work, workers, timeout, note, room)
    try:
        yield from crew.run(tasks, stop or threading.Event())
    finally:
        crew.close()


class Crew(Generic[Task, Result]):
    """Processes that share out numbered tasks."""

    def __init__(
        self, work: Callable[[Task], Result], workers: int, timeout: float, note: Callable[[str], None], room: int
    ) -> None:
        self.work = work
        self.timeout = timeout
        self.note = note
        self.losses = 0
        self.arena = Arena(SLOTS * workers if room else 0, room)
        self.members = [_Member(work, self.arena) for _ in range(workers)]
        self.watch = _Watch(timeout)

    def run(self, tasks: Iterable[Task], stop: threading.Event) -> Iterator[Result]:
        left = iter(enumerate(tasks))
        done: dict[int, Answer] = {}
        turn = 0
        while self._share_out(left) or turn in done:
            while turn not in done:
                if stop.is_set():
                    return
                done |= self._collect()
            result, error = done.pop(turn)
            if error is not None:  # in its turn, after all results before it
                raise error
            yield result
            turn += 1

    def close(self) -> None:
        self.watch.close()
        for member in self.members:
            member.close()

    def _share_out(self, left: Iterator[tuple[int, Any]]) -> bool:
        """Gives every process its tasks ahead, in turn; false when none is under way any more."""
        for _ in range(AHEAD):
            for member in self.members:
                if len(member.tasks) < AHEAD and (task := next(left, None)):
                    member.give((*task, self.arena.take()))
        return any(member.tasks for member in self.members)

    def _collect(self) -> dict[int, Answer]:
        """Answers that have come; waits for at least one, and replaces who will not give any."""
        busy = {member.pipe: member for member in self.members if member.tasks}
        ready = wait(list(busy), timeout=1.0)
        found = {}
        for member in (busy[pipe] for pipe in ready if isinstance(pipe, Connection)):
            try:
                with self.watch.over(member.process):
                    number, answer = member.take()
            except (EOFError, OSError):
                self._replace(member, f"process {member.process.pid} died")
                continue
            found[number] = answer
            self.losses = 0
        for member in list(self.members):
            if member.tasks and time.monotonic() - member.since > self.timeout and not member.pipe.poll():
                self._replace(member, f"process {member.process.pid} was silent for {self.timeout:g} seconds")
        return found

    def _replace(self, member: "_Member", reason: str) -> None:
        self.losses += 1
        if self.losses > MOST_LOSSES:
            raise ResourceError(
                f"{self.losses} processes of the loader were lost in a row ({reason}): look whether the memory is "
                "full, choose fewer with data.workers, or raise data.timeout"
            )
        self.note(
            f"a process of the loader was lost and replaced ({reason}); its work is done again, with the same result"
        )
        tasks = list(member.tasks)
        member.close()
        new = _Member(self.work, self.arena)
        for task in tasks:
            new.give(task)
        self.members[self.members.index(member)] = new


class _Watch:
    """A thread that kills a process which stops in the middle of an answer, or nobody would go on."""

    def __init__(self, timeout: float):
        self.timeout = timeout
        self.watched: tuple[BaseProcess, float] | None = None  # a process, and until when it may take
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._look, daemon=True)
        self.thread.start()

    @contextmanager
    def over(self, process: BaseProcess) -> Iterator[None]:
        self.watched = process, time.monotonic() + self.timeout
        try:
            yield
        finally:
            self.watched = None

    def close(self) -> None:
        self.ended.set()
        self.thread.join()

    def _look(self) -> None:
        while not self.ended.wait(min(self.timeout / 4, 1.0)):
            watched = self.watched
            if watched is not None and time.monotonic() > watched[1]:
                watched[0].kill()


class _Member:
    """One process, its pipe, and the tasks that it has not answered, oldest first."""

    def __init__(self, work: Callable[[Any], Any], arena: Arena):
        self.arena = arena
        self.pipe, there = multiprocessing.Pipe()
        self.process = multiprocessing.Process(target=_serve, args=(work, arena, there, self.pipe), daemon=True)
        self.process.start()
        there.close()
        self.tasks: deque[Numbered] = deque()
        self.since = time.monotonic()  # when it last gave a sign, or was given something to do

    def give(self, task: Numbered) -> None:
        if not self.tasks:
            self.since = time.monotonic()
        self.tasks.append(task)
        with suppress(OSError):  # it died: the next wait finds its pipe closed, and its successor gets the task
            self.pipe.send(task)

    def take(self) -> tuple[int, Answer]:
        """An answer that has begun to come."""
        number, parcel, error = self.pipe.recv()
        _, _, slot = self.tasks.popleft()
        self.since = time.monotonic()
        return number, (self.arena.read(slot, parcel), error)

    def close(self) -> None:
        self.pipe.close()
        self.process.kill()
        self.process.join()


def _serve(work: Callable[[Any], Any], arena: Arena, pipe: Connection, other_end: Connection) -> None:
    """What a process does until nobody is at the other end."""
    other_end.close()  # its copy here would keep the pipe open when the one who leads is killed
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; who leads it decides
    if sys.platform != "win32":
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # so does a terminal that is closed
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    while True:
        try:
            number, task, slot = pipe.recv()
        except (EOFError, OSError):
            return
        answer: tuple[int, Parcel, Exception | None]
        try:
            answer = (number, arena.write(slot, work(task)), None)
        except Exception as error:
            answer = (number, arena.write(slot, None), error)
        try:
            pipe.send(answer)
        except OSError:
            return
        except Exception:  # one that cannot be sent, such as an error of a library with its own arguments
            pipe.send((number, arena.write(slot, None), RuntimeError(repr(answer[2]))))
