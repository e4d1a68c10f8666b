"""Figures 3 and 4: how many pictures a Vision Transformer needs before it does better than a ResNet."""

# ruff: noqa: RUF001  (Chinese has commas of its own)

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from patchwords.pages.both import Both
from patchwords.studies.cell import Cell
from patchwords.studies.experiment import Experiment, Finding
from patchwords.studies.figure import Panel, over
from patchwords.studies.ground import Ground
from patchwords.studies.results import Results, apart, grown, told
from patchwords.studies.wording import ALONE, NOTHING, beside, same, sentence, verdict

PAPER = Both(
    "with few pictures ResNets are ahead, and the more there are, the better Vision Transformers do beside them",
    "图像少时 ResNet 领先，图像越多，Vision Transformer 相对越好",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class DataSize(Experiment):
    """Each model learns from shares of the first pictures for the same number of steps, and is then transferred."""

    name: ClassVar[str] = "data-size"
    of: ClassVar[str] = "Figures 3 and 4"
    title: ClassVar[Both] = Both("Data size", "数据量")
    question: ClassVar[Both] = Both(
        "How many pictures does a Vision Transformer need before it does better than a ResNet?",
        "Vision Transformer 需要多少图像才能胜过 ResNet？",
    )
    models: tuple[str, ...]  # the first is set beside the last
    shares: tuple[float, ...]

    def cells(self, ground: Ground, seeds: Sequence[int]) -> Iterator[Cell]:
        for seed in seeds:
            for model in self.models:
                for share in self.shares:
                    learned = ground.learn({"model": model, "share": share}, seed, share=share)
                    yield learned
                    yield ground.tune(learned)

    def panels(self, results: Results) -> list[Panel]:
        return [
            self._panel(results, "Fine-tuned", "accuracy", stage="fine-tuning"),
            self._panel(results, "A few pictures of each class", "few_shot", stage="pre-training"),
        ]

    def _panel(self, results: Results, title: str, score: str, stage: str) -> Panel:
        lines = [
            over(model, {share: results.measure(score, stage=stage, model=model, share=share) for share in self.shares})
            for model in self.models
        ]
        return Panel(title=title, across="share of the pictures", lines=lines, scale="shares")

    def finding(self, results: Results) -> Finding:
        few, many = min(self.shares), max(self.shares)
        first, last = self.models[0], self.models[-1]
        if few == many or first == last:
            return Finding(ALONE, verdict(None, PAPER))
        found = [
            results.measure("accuracy", stage="fine-tuning", model=model, share=share)
            for share in (few, many)
            for model in (first, last)
        ]
        a, b, c, d = found
        if not (a and b and c and d):
            return Finding(NOTHING, verdict(None, PAPER))
        little, all_ = beside(same(first), a, same(last), b), beside(same(first), c, same(last), d)
        here = sentence(
            Both(
                f"with {100 * few:g} % of the pictures {little.english}",
                f"用 {100 * few:g} % 的图像时，{little.chinese}",
            ),
            Both(f"with {100 * many:g} % {all_.english}", f"用 {100 * many:g} % 时，{all_.chinese}"),
        )
        agrees = False if apart(a, b) > 0 else told(grown((a, b), (c, d)))  # ahead with few pictures, too
        return Finding(here, verdict(agrees, PAPER))
