"""Several cells of a study at once, each in a process of its own."""

import multiprocessing
import os
import pickle
import signal
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Literal, NamedTuple

import torch

from patchwords.errors import PatchwordsError, ResourceError, UsageError, in_words
from patchwords.studies.cell import Cell
from patchwords.studies.outcome import Bench, known, perform
from patchwords.studies.perform import Once, stopped
from patchwords.training.signals import Wish, listening
from patchwords.training.watch import Log

PATIENCE = 0.5  # seconds between two looks at whether somebody asked to stop
GUARD = 'begin the study under `if __name__ == "__main__":`'


def together(cells: Sequence[Cell], bench: Bench, at_once: int) -> Iterator[Cell]:
    """Gives each cell when it is done; each process has one at a time, and none before the one that it begins with."""
    left = [cell for cell in cells if known(bench.folder, cell) is None]
    watcher = Once(bench.watcher)
    with listening() as wish, _hands(min(at_once, len(left)), wish, bench) as hands:
        _equip(hands, pickle.dumps((left, replace(bench, watcher=Log()))), wish, bench)
        while left or any(hand.cell for hand in hands):
            _give(hands, left, bench)
            for hand, said in _heard(hands, wish, bench):
                if said.kind == "note":
                    watcher.note(said.text)
                    continue
                done, hand.cell = hand.cell, None
                if said.kind == "error":
                    raise RelayedError(said.text, said.code)
                assert done, "only who works is done"
                yield done


class RelayedError(PatchwordsError):
    """What went wrong in another process, with the exit code that it has."""

    def __init__(self, sentence: str, code: int):
        super().__init__(sentence)
        self.exit_code = code


class Said(NamedTuple):
    """What a process says: that it listens, a note, that its cell is done, or what went wrong."""

    kind: Literal["ready", "note", "done", "error"]
    text: str
    code: int = 0


@dataclass(eq=False)
class Hand:
    """A process that performs cells, and the one that it has now."""

    process: BaseProcess
    line: Connection
    cell: Cell | None = None


@contextmanager
def _hands(count: int, wish: Wish, bench: Bench) -> Iterator[list[Hand]]:
    """Processes that end with the block, however it ends: what they work on is saved, or was."""
    hands: list[Hand] = []
    threads = max(1, torch.get_num_threads() // max(count, 1))
    try:
        for _ in range(count):
            with _deaf():
                hands.append(_started(threads))
            if wish.number:
                raise stopped(wish.number, bench)
        yield hands
    except BaseException:
        for hand in hands:
            hand.process.terminate()
        raise
    finally:
        for hand in hands:
            hand.line.close()  # who waits for work ends
        for hand in hands:
            hand.process.join()


@contextmanager
def _deaf() -> Iterator[None]:
    """A process started in this block hears no Ctrl-C, not even in its imports; for this one it waits."""
    if sys.platform == "win32":
        yield
        return
    from multiprocessing.resource_tracker import ensure_running

    ensure_running()  # the first start would do so, and hear again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _started(threads: int) -> Hand:
    """It is given little here: what does not fit into its pipe would wait for ever if it died before it read that."""
    refusal = UsageError(f"a process that multiprocessing started cannot perform several trainings at once: {GUARD}")
    if multiprocessing.parent_process() is not None:
        raise refusal
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_work, args=(theirs, threads), daemon=False)
    try:
        process.start()
    except RuntimeError:  # while it imports the script that began the study, it does not know its parent yet
        raise refusal from None
    theirs.close()
    return Hand(process, ours)


def _equip(hands: Sequence[Hand], work: bytes, wish: Wish, bench: Bench) -> None:
    """Gives each, once it listens, all that it may have to work on."""
    for hand in hands:
        try:
            while not wish.number and not hand.line.poll(PATIENCE):
                pass
            if wish.number:
                raise stopped(wish.number, bench)
            hand.line.recv()
            hand.line.send_bytes(work)
        except (EOFError, OSError):
            raise _lost(hand, bench) from None


def _give(hands: Sequence[Hand], left: list[Cell], bench: Bench) -> None:
    """Whoever is free gets the first cell that can be begun."""
    for hand in hands:
        ready = [cell for cell in left if cell.after is None or known(bench.folder, cell.after)]
        if hand.cell is None and ready:
            hand.cell = ready[0]
            left.remove(hand.cell)
            try:
                hand.line.send_bytes(hand.cell.name.encode())
            except OSError:
                raise _lost(hand, bench) from None


def _heard(hands: Sequence[Hand], wish: Wish, bench: Bench) -> Iterator[tuple[Hand, Said]]:
    """What those who work say; an end of one of them, and the wish to stop, are errors."""
    by_line: dict[Any, Hand] = {hand.line: hand for hand in hands if hand.cell}
    lines = wait(list(by_line), timeout=PATIENCE)
    if wish.number:  # which the others may have heard too, and ended
        raise stopped(wish.number, bench)
    for line in lines:
        hand = by_line[line]
        try:
            yield hand, hand.line.recv()
        except (EOFError, ConnectionResetError):
            raise _lost(hand, bench) from None


def _lost(hand: Hand, bench: Bench) -> ResourceError:
    """Of a process that is there no more."""
    hand.process.join()
    doing = f"worked on {hand.cell.name}" if hand.cell else "started"
    guard = "" if hand.cell else f"; where a script of your own starts it, {GUARD}"
    return ResourceError(
        f"a process of the study ended with code {hand.process.exitcode} while it {doing} "
        f"(-9 is want of memory, most often{guard}): "
        f"`{bench.again}` goes on, with fewer --at-once where it comes to this again"
    )


class Told(Log):
    """Sends what a person should read to who looks on; of the rest there would be too much."""

    def __init__(self, line: Connection):
        self.line = line

    def note(self, remark: str) -> None:
        with suppress(OSError):  # nobody looks on any more: `_follow` sees to that
            self.line.send(Said("note", remark))


def _work(line: Connection, threads: int) -> None:
    """In a process of its own: performs what it is told to until nobody tells it anything any more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # where it is not `_deaf` to it from the start
    threading.Thread(target=_follow, daemon=True).start()
    torch.set_num_threads(threads)
    try:
        line.send(Said("ready", ""))
        cells, bench = pickle.loads(_told(line))
        by_name, bench = {cell.name: cell for cell in cells}, replace(bench, watcher=Told(line))
        while True:
            cell = by_name[_told(line).decode()]
            if late := perform(cell, bench):
                raise stopped(late, bench)
            line.send(Said("done", cell.name))
    except Exception as error:
        with suppress(OSError):
            line.send(_in_words(error))
        while True:
            _told(line)  # a line that is closed too early loses what was said


def _follow() -> None:
    """Ends this process when the one that started it is there no more, as SIGTERM does: what it works on is saved."""
    parent = multiprocessing.parent_process()
    assert parent, "only what was started follows"
    wait([parent.sentinel])
    os.kill(os.getpid(), signal.SIGTERM)


def _told(line: Connection) -> bytes:
    """What this process is told; it ends where nobody tells it anything any more."""
    try:
        return line.recv_bytes()
    except (EOFError, OSError):
        sys.exit()


def _in_words(error: Exception) -> Said:
    """As the command has it where it performs the cells itself; --debug shows nothing of this process."""
    sentence, code = in_words(error)
    if code == PatchwordsError.exit_code:
        traceback.print_exception(error)
    return Said("error", sentence, code)
