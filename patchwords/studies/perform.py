"""The cells of a study one by one, or several at once in processes of their own; stopped, and gone on with."""

import multiprocessing
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Literal, NamedTuple

import torch

from patchwords.errors import PatchwordsError, ResourceError
from patchwords.studies.cell import Cell
from patchwords.studies.outcome import Bench, known, perform
from patchwords.training.signals import StoppedError, Wish, listening
from patchwords.training.watch import Log, Moment, Watcher

PATIENCE = 0.5  # seconds between two looks at whether somebody asked to stop


@dataclass
class Once:
    """Says what all trainings say alike a single time; scores are the study's to tell, and small works nobody's."""

    watcher: Watcher
    said: set[str] = field(default_factory=set)

    def note(self, remark: str) -> None:
        if remark not in self.said:
            self.said.add(remark)
            self.watcher.note(remark)

    def step(self, done: int, total: int) -> None:
        self.watcher.step(done, total)

    def moment(self, moment: Moment) -> None:
        self.watcher.moment(moment)

    def scored(self, row: dict[str, Any], best: bool) -> None:
        pass

    def working(self, what: str, done: int, total: int) -> None:
        pass


def one_by_one(cells: Sequence[Cell], bench: Bench) -> Iterator[Cell]:
    """Gives each cell as soon as it is done; those that were done before are not given."""
    bench = replace(bench, watcher=Once(bench.watcher))
    left = [cell for cell in cells if known(bench.folder, cell) is None]
    with listening() as wish:  # also while nothing is trained
        for cell in left:
            late = perform(cell, bench)
            if not late:
                yield cell
            if late or wish.number:
                raise _stopped(late or wish.number, bench)


def together(cells: Sequence[Cell], bench: Bench, at_once: int) -> Iterator[Cell]:
    """The same by several processes, each with one cell at a time, and none before the one that it begins with."""
    left = [cell for cell in cells if known(bench.folder, cell) is None]
    watcher = Once(bench.watcher)
    with listening() as wish, _hands(min(at_once, len(left)), cells, replace(bench, watcher=Log())) as hands:
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
    """What a process says: a note, that its cell is done, or what went wrong."""

    kind: Literal["note", "done", "error"]
    text: str
    code: int = 0


@dataclass(eq=False)
class Hand:
    """A process that performs cells, and the one that it has now."""

    process: BaseProcess
    line: Connection
    cell: Cell | None = None


@contextmanager
def _hands(count: int, cells: Sequence[Cell], bench: Bench) -> Iterator[list[Hand]]:
    """Processes that end with the block, however it ends: what they work on is saved, or was."""
    context = multiprocessing.get_context("spawn")
    hands = []
    threads = max(1, torch.get_num_threads() // max(count, 1))
    try:
        for _ in range(count):
            ours, theirs = context.Pipe()
            process = context.Process(target=_work, args=(theirs, cells, bench, threads), daemon=False)
            process.start()
            theirs.close()
            hands.append(Hand(process, ours))
        yield hands
    finally:
        for hand in hands:
            hand.line.close()  # who waits for work ends; who works ends after its cell, or where it is told to stop
            if hand.cell and hand.process.is_alive():
                hand.process.terminate()
        for hand in hands:
            hand.process.join()


def _give(hands: Sequence[Hand], left: list[Cell], bench: Bench) -> None:
    """Whoever is free gets the first cell that can be begun."""
    for hand in hands:
        ready = [cell for cell in left if cell.after is None or known(bench.folder, cell.after)]
        if hand.cell is None and ready:
            hand.cell = ready[0]
            left.remove(hand.cell)
            try:
                hand.line.send(hand.cell.name)
            except OSError:
                raise _lost(hand, bench) from None


def _heard(hands: Sequence[Hand], wish: Wish, bench: Bench) -> Iterator[tuple[Hand, Said]]:
    """What those who work say; an end of one of them, and the wish to stop, are errors."""
    by_line: dict[Any, Hand] = {hand.line: hand for hand in hands if hand.cell}
    lines = wait(list(by_line), timeout=PATIENCE)
    if wish.number:  # which the others may have heard too, and ended
        raise _stopped(wish.number, bench)
    for line in lines:
        hand = by_line[line]
        try:
            yield hand, hand.line.recv()
        except (EOFError, ConnectionResetError):
            raise _lost(hand, bench) from None


def _lost(hand: Hand, bench: Bench) -> ResourceError:
    """Of a process that is there no more."""
    hand.process.join()
    return ResourceError(
        f"a process of the study ended with code {hand.process.exitcode} while it worked on "
        f"{hand.cell.name if hand.cell else 'nothing'} (-9 is want of memory, most often): "
        f"`{bench.again}` goes on, with fewer --at-once where it comes to this again"
    )


def _stopped(number: int, bench: Bench) -> StoppedError:
    return StoppedError(number, f"stopped between or within trainings, and saved; `{bench.again}` goes on")


class Told(Log):
    """Sends what a person should read to who looks on; of the rest there would be too much."""

    def __init__(self, line: Connection):
        self.line = line

    def note(self, remark: str) -> None:
        self.line.send(Said("note", remark))


def _work(line: Connection, cells: Sequence[Cell], bench: Bench, threads: int) -> None:
    """In a process of its own: performs what it is told to until nobody tells it anything any more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who began this one hears it too, and says so
    torch.set_num_threads(threads)
    by_name, bench = {cell.name: cell for cell in cells}, replace(bench, watcher=Told(line))
    try:
        while True:
            cell = by_name[line.recv()]
            try:
                if late := perform(cell, bench):
                    raise _stopped(late, bench)
                line.send(Said("done", cell.name))
            except PatchwordsError as error:
                line.send(Said("error", str(error), error.exit_code))
    except (EOFError, OSError):
        return
