"""Figure 5: what accuracy costs in compute, for Vision Transformers, hybrids and ResNets of several sizes."""

# ruff: noqa: RUF001  (Chinese has commas of its own)

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np

from patchwords.errors import UsageError
from patchwords.pages.both import Both
from patchwords.pages.wording import percent
from patchwords.studies.cell import Cell
from patchwords.studies.compute import worded
from patchwords.studies.experiment import Experiment, Finding
from patchwords.studies.figure import Line, Panel, Point, in_units
from patchwords.studies.ground import Ground
from patchwords.studies.results import Measure, Results
from patchwords.studies.wording import ALONE, NOTHING, sentence, verdict

WORLDS, SURE = 400, 0.975  # of means drawn by their errors, and in how many of them one must be the cheaper
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
        if len(names) < 2:
            return Finding(ALONE, verdict(None, PAPER))
        points = [self._points(results, name, "accuracy", "fine-tuning") for name in (names[0], names[-1])]
        if not all(points):
            return Finding(NOTHING, verdict(None, PAPER))
        level, first, last = _needs(*(_frontier([(cost, measure.mean) for cost, measure in each]) for each in points))
        here = sentence(
            Both(
                f"to have {percent(level)} after fine-tuning, {names[0]} needs {first.english} of pre-training and "
                f"{names[-1]} needs {last.english}",
                f"微调后要达到 {percent(level)}，{names[0]} 的预训练需要{first.chinese}，"
                f"{names[-1]} 需要{last.chinese}",
            )
        )
        return Finding(here, verdict(_is_cheaper(*points), PAPER))


@dataclass(frozen=True)
class Need:
    """The compute for an accuracy; no more than that, where the cheapest point is above it already."""

    exaflops: float
    at_most: bool

    @property
    def english(self) -> str:
        return f"at most {worded(self.exaflops)}" if self.at_most else worded(self.exaflops)

    @property
    def chinese(self) -> str:
        return f"至多 {worded(self.exaflops)}" if self.at_most else f" {worded(self.exaflops)}"


def _needs(first: Curve, last: Curve) -> tuple[float, Need, Need]:
    """The highest accuracy that both have, and what it takes them."""
    level = min(first[-1][1], last[-1][1])
    return level, _need(first, level), _need(last, level)


def _is_cheaper(first: Sequence[tuple[float, Measure]], last: Sequence[tuple[float, Measure]]) -> bool | None:
    """Whether the first needs less: in all but a few of many worlds whose means are drawn by their errors."""
    chance = np.random.default_rng(0)
    lower = []
    for _ in range(WORLDS):
        drawn = [
            [(cost, chance.normal(measure.mean, measure.error)) for cost, measure in each] for each in (first, last)
        ]
        _, one, other = _needs(*(_frontier(points) for points in drawn))
        lower.append(0 if one.at_most and other.at_most else np.sign(other.exaflops - one.exaflops))
    share = {sign: lower.count(sign) / WORLDS for sign in (1, -1)}
    return True if share[1] >= SURE else False if share[-1] >= SURE else None


def _frontier(points: Curve) -> Curve:
    """The points that are better than all cheaper ones."""
    kept: Curve = []
    for cost, accuracy in points:
        if not kept or accuracy > kept[-1][1]:
            kept.append((cost, accuracy))
    return kept


def _need(curve: Curve, level: float) -> Need:
    """Between two points it lies on a line over the logarithm of the compute."""
    if level <= curve[0][1]:
        return Need(curve[0][0], at_most=level < curve[0][1])
    for (cheap, low), (dear, high) in pairwise(curve):
        if level <= high:
            part = (level - low) / (high - low)
            return Need(math.exp((1 - part) * math.log(cheap) + part * math.log(dear)), at_most=False)
    return Need(curve[-1][0], at_most=False)
