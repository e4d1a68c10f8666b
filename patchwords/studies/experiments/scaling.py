"""Figure 5: what accuracy costs in compute, for Vision Transformers, hybrids and ResNets of several sizes."""

# ruff: noqa: RUF001  (Chinese has commas of its own)

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

from patchwords.errors import UsageError
from patchwords.pages.both import Both
from patchwords.pages.wording import percent
from patchwords.studies.cell import Cell
from patchwords.studies.compute import worded
from patchwords.studies.experiment import Experiment, Finding
from patchwords.studies.figure import Line, Panel, Point, in_units
from patchwords.studies.ground import Ground
from patchwords.studies.results import Measure, Results
from patchwords.studies.wording import NOTHING, sentence, verdict

ENOUGH = 1.5  # times the compute, from which on one is told to need more than another
PAPER = Both(
    "for the same accuracy Vision Transformers need two to four times less compute than ResNets",
    "达到同样的准确率，Vision Transformer 所需的计算量是 ResNet 的二分之一到四分之一",
)
Curve = list[tuple[float, float]]  # exaFLOPs and accuracy


@dataclass(frozen=True, kw_only=True, slots=True)
class Scaling(Experiment):
    """Models of several sizes learn for several times as long; the compute is counted, not timed."""

    name: ClassVar[str] = "scaling"
    of: ClassVar[str] = "Figure 5 and Table 6"
    title: ClassVar[Both] = Both("Scaling", "规模")
    question: ClassVar[Both] = Both(
        "What does accuracy cost in compute, for Vision Transformers, hybrids and ResNets?",
        "对 Vision Transformer、混合模型与 ResNet 来说，达到一定准确率需要多少计算量？",
    )
    families: dict[str, tuple[str, ...]]  # from small to large; the first is set beside the last
    durations: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.families or not all(self.families.values()):
            raise UsageError("families of scaling are empty: name one model or more in each of them")

    def cells(self, ground: Ground, seeds: Sequence[int]) -> Iterator[Cell]:
        for seed in seeds:
            for models in self.families.values():
                for model in models:
                    for duration in self.durations:
                        at = {"model": model, "duration": duration}
                        learned = ground.learn(at, seed, {"duration": duration})
                        yield learned
                        yield ground.tune(learned)

    def panels(self, results: Results) -> list[Panel]:
        return [
            self._panel(results, "Fine-tuned", "accuracy", stage="fine-tuning"),
            self._panel(results, "A few pictures of each class", "few_shot", stage="pre-training"),
        ]

    def _panel(self, results: Results, title: str, score: str, stage: str) -> Panel:
        lines = [
            Line(name=family, points=[Point(*point) for point in self._points(results, family, score, stage)])
            for family in self.families
        ]
        return in_units(Panel(title=title, across="of pre-training", lines=lines, scale="compute", joined=False))

    def _points(self, results: Results, family: str, score: str, stage: str) -> list[tuple[float, Measure]]:
        """Compute of the pre-training, and what it was worth, from cheap to dear."""
        points = []
        for model in self.families[family]:
            for duration in self.durations:
                cost = results.mean("exaflops", stage="pre-training", model=model, duration=duration)
                measure = results.measure(score, stage=stage, model=model, duration=duration)
                if cost and measure:
                    points.append((cost, measure))
        return sorted(points, key=lambda point: point[0])

    def finding(self, results: Results) -> Finding:
        names = list(self.families)
        curves = [_frontier(self._points(results, name, "accuracy", "fine-tuning")) for name in (names[0], names[-1])]
        if not all(curves):
            return Finding(NOTHING, verdict(None, PAPER))
        level = min(curve[-1][1] for curve in curves)
        first, last = (_needed(curve, level) for curve in curves)
        times = last / first
        here = sentence(
            Both(
                f"to have {percent(level)} after fine-tuning, {names[0]} needs {worded(first)} of pre-training and "
                f"{names[-1]} {worded(last)}, {times:.2g} times as much",
                f"微调后要达到 {percent(level)}，{names[0]} 的预训练需要 {worded(first)}，"
                f"{names[-1]} 需要 {worded(last)}，是前者的 {times:.2g} 倍",
            )
        )
        agrees = None if 1 / ENOUGH < times < ENOUGH else times > 1
        return Finding(here, verdict(agrees, PAPER))


def _frontier(points: Sequence[tuple[float, Measure]]) -> Curve:
    """The points that are better than all cheaper ones."""
    kept: Curve = []
    for cost, measure in points:
        if not kept or measure.mean > kept[-1][1]:
            kept.append((cost, measure.mean))
    return kept


def _needed(curve: Curve, level: float) -> float:
    """The compute for an accuracy, between two points on a line over its logarithm."""
    if level <= curve[0][1]:
        return curve[0][0]
    for (cheap, low), (dear, high) in pairwise(curve):
        if level <= high:
            part = (level - low) / (high - low)
            return math.exp((1 - part) * math.log(cheap) + part * math.log(dear))
    return curve[-1][0]
