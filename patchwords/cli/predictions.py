"""How `patchwords predict` says its answers: lines for people, JSON lines, or CSV; each as soon as it is there."""

import abc
import csv
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.cells import cell_len, set_cell_size

from patchwords.cli.output import Output
from patchwords.data.sources.names import printable
from patchwords.pages.cells import cell, is_formula
from patchwords.pages.markup import visible

if TYPE_CHECKING:
    from patchwords.serve.prediction import Prediction

WIDEST = 80  # columns for a name where lines have no edge; a longer one pushes the rest aside
SHARE = 11  # columns for a probability and the space around it


class Sayer(abc.ABC):
    """Says predictions one by one."""

    @abc.abstractmethod
    def say(self, prediction: "Prediction", figure: Path | None) -> None: ...


class Lines(Sayer):
    """A line a picture: its name, the best class, then the others; on a terminal no wider than that."""

    def __init__(self, output: Output, names: Iterable[str], classes: Iterable[str], top: int) -> None:
        self.output, self.top = output, top
        self.room = output.console.width if output.console.is_terminal else 0
        widest = max(map(_cells, ("class", *classes)))
        self.label = min(widest, max(self.room // 6, 8) if self.room else WIDEST // 2)
        longest = max(map(_cells, ("picture", *names)))
        self.name = min(longest, max(self.room - 2 * (self.label + SHARE), 8) if self.room else WIDEST)
        output.console.print(self._row("picture", "class", "", "then" if top > 1 else ""), style="bold", markup=False)

    def say(self, prediction: "Prediction", figure: Path | None) -> None:
        (label, share), *others = prediction.top(self.top)
        parts = [f"{self._cut(_plain(other), self.label)}: {_percent(portion)}" for other, portion in others]
        first, *further = self._packed(parts)
        self.output.text(self._row(_plain(prediction.name), _plain(label), _percent(share), first))
        for line in further:
            self.output.text(self._row("", "", "", line))

    def _row(self, name: str, label: str, share: str, others: str) -> str:
        cells = [_filled(self._cut(text, wide), wide) for text, wide in ((name, self.name), (label, self.label))]
        return f"{'  '.join(cells)}  {share:>7}  {others}".rstrip()

    def _cut(self, text: str, width: int) -> str:
        """On a terminal, without the middle of what is too wide."""
        if not self.room or cell_len(text) <= width:
            return text
        end = text[-(width // 2) :]
        while cell_len(end) > width // 2:
            end = end[1:]
        return f"{set_cell_size(text, width - width // 2 - 1).rstrip()}…{end}"

    def _packed(self, parts: Sequence[str]) -> list[str]:
        """The parts in lines that fit beside the name and the best class."""
        room = self.room - (self.name + self.label + SHARE + 2) if self.room else sys.maxsize
        lines = [""]
        for part in parts:
            longer = f"{lines[-1]}, {part}" if lines[-1] else part
            if lines[-1] and cell_len(longer) > room:
                lines.append(part)
            else:
                lines[-1] = longer
        return lines


class JsonLines(Sayer):
    """An object a picture."""

    def __init__(self, output: Output, top: int) -> None:
        self.output, self.top = output, top

    def say(self, prediction: "Prediction", figure: Path | None) -> None:
        top = [{"label": label, "probability": share} for label, share in prediction.top(self.top)]
        found = {"kind": "prediction", "picture": prediction.name, **top[0], "top": top}
        self.output.json(found | ({"figure": str(figure)} if figure else {}))


class Csv(Sayer):
    """A row for each of the best classes of a picture: picture,rank,label,probability."""

    def __init__(self, top: int) -> None:
        self.top = top
        self.writer = csv.writer(sys.stdout, lineterminator="\n")
        self.writer.writerow(("picture", "rank", "label", "probability"))

    def say(self, prediction: "Prediction", figure: Path | None) -> None:
        name = f"./{prediction.name}" if is_formula(prediction.name) else prediction.name  # the same file
        for rank, (label, share) in enumerate(prediction.top(self.top), 1):
            self.writer.writerow((name, rank, printable(cell(label)), share))
        sys.stdout.flush()


def _plain(name: str) -> str:
    return visible(name, keep="")


def _cells(name: str) -> int:
    return cell_len(_plain(name))


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _filled(text: str, width: int) -> str:
    return text + " " * (width - cell_len(text))
