"""Table 8: kinds of positions, at the stem, in every layer, and in every layer but shared."""

# ruff: noqa: RUF001  (Chinese has commas of its own)

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from patchwords.pages.both import Both
from patchwords.studies.cell import Cell
from patchwords.studies.experiment import Experiment, Finding
from patchwords.studies.figure import Panel, over
from patchwords.studies.ground import Ground
from patchwords.studies.results import Measure, Results, alike, apart, told
from patchwords.studies.wording import NOTHING, beside, sentence, verdict

STEM, EVERY, SHARED = "at the stem", "every layer", "every layer, shared"
NONE = "none"
CALLED = {
    "1-D": "一维",
    "2-D": "二维",
    "relative": "相对",
    STEM: "输入处",
    EVERY: "每层各自",
    SHARED: "每层共享",
}
TABLE_8: dict[tuple[str, str], dict[str, Any]] = {
    (NONE, STEM): {"kind": "none"},
    ("1-D", STEM): {"kind": "learned-1d", "at": "stem"},
    ("1-D", EVERY): {"kind": "learned-1d", "at": "every"},
    ("1-D", SHARED): {"kind": "learned-1d", "at": "shared"},
    ("2-D", STEM): {"kind": "learned-2d", "at": "stem"},
    ("2-D", EVERY): {"kind": "learned-2d", "at": "every"},
    ("2-D", SHARED): {"kind": "learned-2d", "at": "shared"},
    ("relative", STEM): {"kind": "relative"},
}
PAPER = Both(
    "without positions a model is clearly worse, and which kind it has hardly matters",
    "没有位置嵌入的模型明显更差，而用哪一种几乎没有区别",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Positions(Experiment):
    """The same model with each kind of positions."""

    name: ClassVar[str] = "positions"
    of: ClassVar[str] = "Table 8"
    title: ClassVar[Both] = Both("Positions", "位置嵌入")
    question: ClassVar[Both] = Both(
        "Must a model know where its patches are, and how is it best told?",
        "模型需要知道图像块的位置吗？怎样告诉它最好？",
    )
    model: str
    deviation: float = 0.02  # of the tables as they start

    def cells(self, ground: Ground, seeds: Sequence[int]) -> Iterator[Cell]:
        for seed in seeds:
            for (kind, place), part in TABLE_8.items():
                at = {"model": self.model, "positions": kind, "where": place}
                learned = {"std": self.deviation} if part["kind"] != NONE else {}
                yield ground.learn(at, seed, {"parts": {"position": {**part, **learned}}})

    def panels(self, results: Results) -> list[Panel]:
        return [
            self._panel(results, "A few pictures of each class", "few_shot"),
            self._panel(results, "The classes it learned", "accuracy"),
        ]

    def _panel(self, results: Results, title: str, score: str) -> Panel:
        lines = [
            over(column, {kind: _measure(results, score, kind, place) for kind, place in TABLE_8 if place == column})
            for column in (STEM, EVERY, SHARED)
        ]
        return Panel(title=title, across="positions", lines=lines, scale="names")

    def finding(self, results: Results) -> Finding:
        every = {key: _measure(results, "few_shot", *key) for key in TABLE_8}
        without = every.pop((NONE, STEM))
        kinds = {key: measure for key, measure in every.items() if measure}
        if not without or len(kinds) < len(every):
            return Finding(NOTHING, verdict(None, PAPER))
        best, worst = (choose(kinds, key=lambda key: kinds[key].mean) for choose in (max, min))
        here = sentence(
            beside(
                Both(f"the best kind ({_named(best)})", f"最好的一种（{_called(best)}）"),
                kinds[best],
                Both("no positions", "没有位置嵌入"),
                without,
            ),
            Both(
                f"the worst kind ({_named(worst)}) has {kinds[worst]}",
                f"最差的一种（{_called(worst)}）为 {kinds[worst]}",
            ),
        )
        clear, same = told(apart(kinds[worst], without)), alike(kinds[best], kinds[worst])
        agrees = False if False in (clear, same) else None if None in (clear, same) else True
        return Finding(here, verdict(agrees, PAPER))


def _measure(results: Results, score: str, kind: str, place: str) -> Measure | None:
    return results.measure(score, stage="pre-training", positions=kind, where=place)


def _named(key: tuple[str, str]) -> str:
    return ", ".join(key)


def _called(key: tuple[str, str]) -> str:
    """The same in Chinese."""
    return "，".join(CALLED[word] for word in key)
