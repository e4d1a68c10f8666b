"""Appendix D.1, Table 7: ResNets that were pre-trained with Adam or with SGD, fine-tuned alike."""

# ruff: noqa: RUF001  (Chinese has commas of its own)

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from patchwords.pages.both import Both
from patchwords.studies.cell import Cell
from patchwords.studies.experiment import Experiment, Finding
from patchwords.studies.figure import Panel, over
from patchwords.studies.ground import Ground
from patchwords.studies.results import Measure, Results, apart, told
from patchwords.studies.wording import NOTHING, beside, sentence, verdict

PAPER = Both(
    "pre-training with Adam is a little better than with SGD, for ResNets too",
    "即使对 ResNet，用 Adam 预训练也略好于 SGD",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Optimizer(Experiment):
    """Each model is pre-trained with each optimizer, at a rate of its own."""

    name: ClassVar[str] = "optimizer"
    of: ClassVar[str] = "Appendix D.1, Table 7"
    title: ClassVar[Both] = Both("Optimizer", "优化器")
    question: ClassVar[Both] = Both(
        "Are ResNets better pre-trained with SGD, as is usual, or with Adam?",
        "ResNet 用惯常的 SGD 预训练更好，还是用 Adam 更好？",
    )
    models: tuple[str, ...]
    adam: dict[str, Any]
    sgd: dict[str, Any]

    def cells(self, ground: Ground, seeds: Sequence[int]) -> Iterator[Cell]:
        for seed in seeds:
            for model in self.models:
                for called, table in (("Adam", self.adam), ("SGD", self.sgd)):
                    learned = ground.learn({"model": model, "optimizer": called}, seed, {"optimizer": table})
                    yield learned
                    yield ground.tune(learned)

    def panels(self, results: Results) -> list[Panel]:
        return [
            self._panel(results, "Fine-tuned", "accuracy", "fine-tuning"),
            self._panel(results, "The classes it learned", "accuracy", "pre-training"),
        ]

    def _panel(self, results: Results, title: str, score: str, stage: str) -> Panel:
        lines = [
            over(
                called,
                {model: results.measure(score, stage=stage, model=model, optimizer=called) for model in self.models},
            )
            for called in ("Adam", "SGD")
        ]
        return Panel(title=title, across="model", lines=lines, scale="names")

    def finding(self, results: Results) -> Finding:
        adam, sgd = self._mean(results, "Adam"), self._mean(results, "SGD")
        if not (adam and sgd):
            return Finding(NOTHING, verdict(None, PAPER))
        here = sentence(
            beside(
                Both("after fine-tuning, what Adam pre-trained", "微调之后，用 Adam 预训练的模型"),
                adam,
                Both("what SGD pre-trained", "用 SGD 预训练的模型"),
                sgd,
            )
        )
        return Finding(here, verdict(told(apart(adam, sgd)), PAPER))

    def _mean(self, results: Results, called: str) -> Measure | None:
        """Over the models, once for each seed."""
        found = [
            results.measure("accuracy", stage="fine-tuning", model=model, optimizer=called) for model in self.models
        ]
        there = [measure for measure in found if measure]
        if len(there) < len(self.models) or any(len(each.values) < len(results.seeds()) for each in there):
            return None  # what is lost would be another thing's mean
        means = [sum(values) / len(values) for values in zip(*(each.values for each in there), strict=True)]
        return Measure(values=tuple(means), judged=there[0].judged)
