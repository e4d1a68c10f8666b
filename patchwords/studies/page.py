"""report.html of a study: the question, the finding in two sentences, the figure, the table, and how it was made."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from patchwords.pages.both import Both, chinese, said
from patchwords.pages.markup import Markup, element, name
from patchwords.pages.page import Section
from patchwords.pages.page import page as framed
from patchwords.pages.parts import facts, scroll, sheet, table, tiles
from patchwords.pages.wording import plural, whole
from patchwords.studies.compute import worded
from patchwords.studies.experiment import Experiment, Finding
from patchwords.studies.results import SCORES, Results
from patchwords.studies.wording import seeds

COSTS: dict[str, Callable[[float], str]] = {
    "pictures": whole,
    "steps": whole,
    "parameters": whole,
    "exaflops": worded,
}
HEADS = {"exaflops": "compute"}
LOST = "its loss became infinite"


@dataclass(frozen=True, kw_only=True)
class Page:
    """What the page shows."""

    experiment: Experiment
    results: Results
    finding: Finding
    figure: bytes
    told: Mapping[str, str]  # how it was made
    grid: str

    def text(self) -> str:
        experiment = self.experiment
        title = f"{experiment.title.english} on {self.told['pictures']}"
        head = [element("h1", experiment.title.english, " on ", name(self.told["pictures"]))]
        top = element("header", *head, *said(experiment.question, experiment.title.chinese), tiles(self._tiles()))
        return framed(title, top, list(self._sections()))

    def _tiles(self) -> Iterator[tuple[str, str, str]]:
        rows = self.results.rows
        done = sum(row.outcome.numbers.get("exaflops", 0.0) for row in rows)
        yield "trainings", whole(len(rows)), plural(len(self.results.seeds()), "seed")
        yield "pictures seen", whole(sum(row.seen for row in rows)), "repetitions counted"
        yield "compute", worded(done), "counted and not timed"

    def _sections(self) -> Iterator[Section]:
        here, paper = self.finding
        sure = seeds(self.results)
        note = Both(f"{sure.english[:1].upper()}{sure.english[1:]}.", f"{sure.chinese}。")
        yield Section(heading="Finding", content=(*said(here, "结论"), *said(paper, "论文"), *_quiet(note)))
        picture = sheet(self.figure, f"Figure of the study {self.experiment.name}", "figure.png")
        yield Section(heading="Figure", content=(picture,))
        yield Section(heading="Table", content=(self._table(), element("p", "results.csv has a row for each seed.")))
        told = facts((key, element("bdi", text)) for key, text in self.told.items())  # whole: commands are run again
        yield Section(heading="How", content=(told,))
        yield Section(heading="Grid", content=(scroll(element("pre", self.grid), says="The grid"),))

    def _table(self) -> Markup:
        axes = list(dict.fromkeys(key for row in self.results.rows for key in row.cell.at))
        head = ["", *axes, *SCORES.values(), *(HEADS.get(key, key) for key in COSTS)]
        return table(
            head,
            [self._line(at, found, axes) for at, found in self.results.groups()],
            says="All numbers",
            class_="numbers whole",
        )

    def _line(self, at: Mapping[str, object], found: Results, axes: list[str]) -> list[str]:
        """The mean of a few rows that differ by their seed."""
        where = [str(at["stage"]), *(str(at.get(key, "")) for key in axes)]
        scores = [found.measure(score) for score in SCORES]
        costs = [(found.mean(cost), write) for cost, write in COSTS.items()]
        lost = sum(bool(row.outcome.lost) for row in found.rows)
        without = f" ({lost} of {len(found.rows)} seeds lost)" if lost else ""
        shown = [f"{score}{without}" if score else "" for score in scores]
        if lost == len(found.rows):
            shown[0] = LOST
        return [*where, *shown, *("" if number is None else write(number) for number, write in costs)]


def _quiet(words: Both) -> list[Markup]:
    return [element("p", words.english, class_="note"), chinese(words.chinese)]
