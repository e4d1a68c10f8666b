"""Work done by other processes, its results in order; a process that dies or hangs is replaced and nothing changes.

Nothing can change, because a result is a pure function of its task.
"""

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from typing import Any, Generic, TypeVar

from patchwords.errors import ResourceError

AHEAD = 2  # tasks that each process is given at a time
MOST_LOSSES = 10  # of processes, without a result between them

Task = TypeVar("Task")
Result = TypeVar("Result")
Numbered = tuple[int, Any]
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
) -> Iterator[Result]:
    """`work(task)` for every task, in their order; `note` hears of processes that were replaced."""
    if workers == 0:
        yield from map(work, tasks)
        return
    crew = Crew(work, workers, timeout, note)
    try:
        yield from crew.run(tasks)
    finally:
        crew.close()


class Crew(Generic[Task, Result]):
    """Processes that share out numbered tasks."""

    def __init__(
        self, work: Callable[[Task], Result], workers: int, timeout: float, note: Callable[[str], None]
    ) -> None:
        self.work = work
        self.timeout = timeout
        self.note = note
        self.losses = 0
        self.members = [_Member(work) for _ in range(workers)]

    def run(self, tasks: Iterable[Task]) -> Iterator[Result]:
        left = iter(enumerate(tasks))
        done: dict[int, Answer] = {}
        turn = 0
        while self._share_out(left) or turn in done:
            while turn not in done:
                done |= self._collect()
            result, error = done.pop(turn)
            if error is not None:  # in its turn, after all results before it
                raise error
            yield result
            turn += 1

    def close(self) -> None:
        for member in self.members:
            member.close()

    def _share_out(self, left: Iterator[Numbered]) -> bool:
        """Gives every process its tasks ahead, in turn; false when none is under way any more."""
        for _ in range(AHEAD):
            for member in self.members:
                if len(member.tasks) < AHEAD and (task := next(left, None)):
                    member.give(task)
        return any(member.tasks for member in self.members)

    def _collect(self) -> dict[int, Answer]:
        """Answers that have come; waits for at least one, and replaces who will not give any."""
        busy = {member.pipe: member for member in self.members if member.tasks}
        ready = wait(list(busy), timeout=1.0)
        found = {}
        for member in (busy[pipe] for pipe in ready if isinstance(pipe, Connection)):
            try:
                number, answer = member.take(self.timeout)
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
        new = _Member(self.work)
        for task in tasks:
            new.give(task)
        self.members[self.members.index(member)] = new


class _Member:
    """One process, its pipe, and the tasks that it has not answered, oldest first."""

    def __init__(self, work: Callable[[Any], Any]):
        self.pipe, there = multiprocessing.Pipe()
        self.process = multiprocessing.Process(target=_serve, args=(work, there, self.pipe), daemon=True)
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

    def take(self, timeout: float) -> tuple[int, Answer]:
        """An answer that has begun to come; whoever stops in the middle of it is killed, or nobody would go on."""
        watch = threading.Timer(min(timeout, threading.TIMEOUT_MAX), self.process.kill)
        watch.start()
        try:
            number, result, error = self.pipe.recv()
        finally:
            watch.cancel()
            watch.join()
        self.tasks.popleft()
        self.since = time.monotonic()
        return number, (result, error)

    def close(self) -> None:
        self.pipe.close()
        self.process.kill()
        self.process.join()


def _serve(work: Callable[[Any], Any], pipe: Connection, other_end: Connection) -> None:
    """What a process does until nobody is at the other end."""
    other_end.close()  # its copy here would keep the pipe open when the one who leads is killed
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; who leads it decides
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    while True:
        try:
            number, task = pipe.recv()
        except (EOFError, OSError):
            return
        answer: tuple[int, Any, Exception | None]
        try:
            answer = (number, work(task), None)
        except Exception as error:
            answer = (number, None, error)
        try:
            pipe.send(answer)
        except OSError:
            return
        except Exception:  # one that cannot be sent, such as an error of a library with its own arguments
            pipe.send((number, None, RuntimeError(repr(answer[2]))))
