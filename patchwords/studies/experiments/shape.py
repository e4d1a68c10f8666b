"""Appendix D.2: what is worth its compute: depth, width, the MLP's width, or smaller patches."""

# ruff: noqa: RUF001  (Chinese has commas of its own)

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from patchwords.pages.both import Both
from patchwords.pages.wording import signed
from patchwords.studies.cell import At, Cell
from patchwords.studies.experiment import Experiment, Finding
from patchwords.studies.figure import Line, Panel, Point, in_units
from patchwords.studies.ground import Ground
from patchwords.studies.results import Measure, Results, apart, told
from patchwords.studies.wording import NOTHING, sentence, verdict

BASE = "base"
PAPER = Both(
    "more depth helps more than more width, and smaller patches help without a parameter more",
    "加深比加宽更有帮助，而更小的图像块无需更多参数也有帮助",
)
CALLED = {
    "depth": Both("depth gives", "加深"),
    "width": Both("width gives", "加宽"),
    "mlp": Both("a wider MLP gives", "加宽 MLP"),
    "patch": Both("smaller patches give", "更小的图像块"),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Shape(Experiment):
    """One number of a base model is changed at a time."""

    name: ClassVar[str] = "shape"
    of: ClassVar[str] = "Appendix D.2, Figure 8"
    title: ClassVar[Both] = Both("Shape", "形状")
    question: ClassVar[Both] = Both(
        "Which way of making a model larger is worth its compute?", "用哪种方式增大模型最划算？"
    )
    model: str
    depth: tuple[int, ...]
    width: tuple[int, ...]
    mlp: tuple[int, ...]
    patch: tuple[int, ...]

    @property
    def varied(self) -> dict[str, tuple[int, ...]]:
        return {"depth": self.depth, "width": self.width, "mlp": self.mlp, "patch": self.patch}

    def cells(self, ground: Ground, seeds: Sequence[int]) -> Iterator[Cell]:
        for seed in seeds:
            yield ground.learn(self._at(BASE, 0), seed)
            for what, values in self.varied.items():
                for value in values:
                    yield ground.learn(self._at(what, value), seed, {"parts": _part(what, value)})

    def _at(self, what: str, value: int) -> At:
        return {"model": self.model, "changed": what, "to": value or ""}

    def panels(self, results: Results) -> list[Panel]:
        return [
            self._panel(results, "The classes it learned", "accuracy"),
            self._panel(results, "A few pictures of each class", "few_shot"),
        ]

    def _panel(self, results: Results, title: str, score: str) -> Panel:
        lines = []
        for what in self.varied:
            found = [*self._points(results, BASE, score), *self._points(results, what, score)]
            lines.append(Line(name=what, points=[Point(*point) for point in sorted(found, key=lambda each: each[0])]))
        return in_units(Panel(title=title, across="of training", lines=lines, scale="compute"))

    def _points(self, results: Results, what: str, score: str) -> Iterator[tuple[float, Measure]]:
        """Compute, and what it was worth."""
        for value in self.varied.get(what, (0,)):
            at: dict[str, Any] = {"stage": "pre-training", **self._at(what, value)}
            cost, measure = results.mean("exaflops", **at), results.measure(score, **at)
            if cost and measure:
                yield cost, measure

    def finding(self, results: Results) -> Finding:
        base = dict(self._points(results, BASE, "accuracy"))
        dearest = {what: max(self._points(results, what, "accuracy"), default=None, key=_cost) for what in self.varied}
        there = {what: point for what, point in dearest.items() if point}
        if not base or not {"depth", "width"} <= there.keys():
            return Finding(NOTHING, verdict(None, PAPER))
        ((cost, start),) = base.items()
        gains = [_gain(what, there[what], cost, start) for what in there]
        first = Both(f"the base has {start}", f"基准模型为 {start}")
        signs = [apart(there["depth"][1], there["width"][1])]
        signs += [apart(there["patch"][1], start)] if "patch" in there else []
        return Finding(sentence(first, *gains), verdict(False if -1 in signs else told(signs[0]), PAPER))


def _cost(point: tuple[float, Measure]) -> float:
    return point[0]


def _part(what: str, value: int) -> dict[str, Any]:
    return {what: [value, value] if what == "patch" else value}


def _gain(what: str, point: tuple[float, Measure], cost: float, start: Measure) -> Both:
    points = signed(100 * (point[1].mean - start.mean))
    times = point[0] / cost
    return Both(
        f"{CALLED[what].english} {points} points for {times:.1f} times the compute",
        f"{CALLED[what].chinese}以 {times:.1f} 倍计算量带来 {points} 个百分点的变化",
    )
