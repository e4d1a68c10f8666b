"""Appendix D.3: a class token or the mean of the patches, each at several rates."""

# ruff: noqa: RUF001  (Chinese has commas of its own)

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from patchwords.pages.both import Both
from patchwords.studies.cell import At, Cell
from patchwords.studies.experiment import Experiment, Finding
from patchwords.studies.figure import Panel, over
from patchwords.studies.ground import Ground
from patchwords.studies.results import Measure, Results, alike
from patchwords.studies.wording import NOTHING, beside, sentence, verdict

CLASS, MEAN = "class token", "mean"
POOLS: dict[str, dict[str, Any]] = {
    CLASS: {"special": ["class"], "pool": {"kind": "class"}},
    MEAN: {"special": [], "pool": {"kind": "mean"}},
}
PAPER = Both("both work equally well, each at a rate of its own", "在各自的学习率下，两者效果相同")


@dataclass(frozen=True, kw_only=True, slots=True)
class Head(Experiment):
    """What the classifier sees, by learning rate: an early failure of the mean was only the rate."""

    name: ClassVar[str] = "head"
    of: ClassVar[str] = "Appendix D.3"
    title: ClassVar[Both] = Both("Head", "分类头")
    question: ClassVar[Both] = Both(
        "Is a class token needed, or does the mean of the patches do as well?",
        "必须有类别标记吗？对图像块取平均是否一样好？",
    )
    model: str
    rates: tuple[float, ...]

    def cells(self, ground: Ground, seeds: Sequence[int]) -> Iterator[Cell]:
        for seed in seeds:
            for pool, parts in POOLS.items():
                for rate in self.rates:
                    at: At = {"model": self.model, "pool": pool, "rate": rate}
                    yield ground.learn(at, seed, {"parts": parts, "optimizer.lr": rate})

    def panels(self, results: Results) -> list[Panel]:
        return [
            self._panel(results, "The classes it learned", "accuracy"),
            self._panel(results, "A few pictures of each class", "few_shot"),
        ]

    def _panel(self, results: Results, title: str, score: str) -> Panel:
        lines = [over(pool, {rate: _measure(results, score, pool, rate) for rate in self.rates}) for pool in POOLS]
        return Panel(title=title, across="learning rate", lines=lines, scale="rates")

    def finding(self, results: Results) -> Finding:
        token, mean = self._best(results, CLASS), self._best(results, MEAN)
        if not (token and mean):
            return Finding(NOTHING, verdict(None, PAPER))
        here = sentence(
            beside(
                Both(f"the class token at its best rate of {token[0]:g}", f"类别标记在最佳学习率 {token[0]:g} 下"),
                token[1],
                Both(f"the mean at its own of {mean[0]:g}", f"取平均在其最佳学习率 {mean[0]:g} 下"),
                mean[1],
            )
        )
        return Finding(here, verdict(alike(token[1], mean[1]), PAPER))

    def _best(self, results: Results, pool: str) -> tuple[float, Measure] | None:
        """The rate with the highest accuracy, and that."""
        found = [(rate, _measure(results, "accuracy", pool, rate)) for rate in self.rates]
        there = [(rate, measure) for rate, measure in found if measure]
        return max(there, key=lambda pair: (len(pair[1].values), pair[1].mean), default=None)  # all seeds, if it can be


def _measure(results: Results, score: str, pool: str, rate: float) -> Measure | None:
    return results.measure(score, stage="pre-training", pool=pool, rate=rate)
