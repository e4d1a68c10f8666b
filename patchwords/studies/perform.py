"""The cells of a study one by one: stopped, and gone on with."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from patchwords.studies.cell import Cell
from patchwords.studies.outcome import Bench, known, perform
from patchwords.training.signals import StoppedError, listening
from patchwords.training.watch import Moment, Watcher


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
                raise stopped(late or wish.number, bench)


def stopped(number: int, bench: Bench) -> StoppedError:
    """What a study says that was asked to stop."""
    return StoppedError(number, f"stopped between or within trainings, and saved; `{bench.again}` goes on")
