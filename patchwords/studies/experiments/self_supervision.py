"""Section 4.6: what it is worth to learn from pictures without their labels, by masked patch prediction."""

# ruff: noqa: RUF001  (Chinese has commas of its own)

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from patchwords.pages.both import Both
from patchwords.studies.cell import Cell
from patchwords.studies.experiment import Experiment, Finding
from patchwords.studies.figure import Panel, over
from patchwords.studies.ground import Ground
from patchwords.studies.results import Measure, Results, apart
from patchwords.studies.wording import NOTHING, beside, sentence, verdict

SCRATCH, MASKED, LABELS = "scratch", "masked patches", "labels"
PAPER = Both(
    "masked patches are better than no pre-training (there by two points), and behind labels (there by four)",
    "掩码图像块预测胜过不预训练（论文中高两个百分点），但不及有标签的预训练（论文中低四个百分点）",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class SelfSupervision(Experiment):
    """Three starts, then the same share of the target to learn from."""

    name: ClassVar[str] = "self-supervision"
    of: ClassVar[str] = "Section 4.6"
    title: ClassVar[Both] = Both("Self-supervision", "自监督")
    question: ClassVar[Both] = Both(
        "What is it worth to learn from pictures without their labels?", "不用标签从图像中学习有多大价值？"
    )
    model: str
    share: float

    def cells(self, ground: Ground, seeds: Sequence[int]) -> Iterator[Cell]:
        for seed in seeds:
            at = {"model": self.model}
            yield ground.scratch({**at, "start": SCRATCH}, seed, share=self.share)
            masked = ground.learn({**at, "start": MASKED}, seed, ground.grid.mask)
            labelled = ground.learn({**at, "start": LABELS}, seed)
            for learned in (masked, labelled):
                yield learned
                yield ground.tune(learned, share=self.share)

    def panels(self, results: Results) -> list[Panel]:
        starts = (SCRATCH, MASKED, LABELS)
        tuned = over("after fine-tuning", {start: _judged(results, start) for start in starts})
        few = over(
            "frozen", {start: results.measure("few_shot", stage="pre-training", start=start) for start in starts}
        )
        return [
            Panel(title="Fine-tuned", across="pre-training", lines=[tuned], scale="names"),
            Panel(title="A few pictures of each class", across="pre-training", lines=[few], scale="names"),
        ]

    def finding(self, results: Results) -> Finding:
        scratch, masked, labels = (_judged(results, start) for start in (SCRATCH, MASKED, LABELS))
        if not (scratch and masked and labels):
            return Finding(NOTHING, verdict(None, PAPER))
        start = Both("what learned from masked patches", "掩码图像块预训练后")
        here = sentence(
            beside(start, masked, Both("what began from scratch", "从零训练"), scratch),
            Both(f"what learned with labels has {labels}", f"有标签预训练后为 {labels}"),
        )
        signs = (apart(masked, scratch), apart(labels, masked))
        agrees = False if -1 in signs else True if signs == (1, 1) else None
        return Finding(here, verdict(agrees, PAPER))


def _judged(results: Results, start: str) -> Measure | None:
    """By the target's pictures, however it began."""
    stage = "from scratch" if start == SCRATCH else "fine-tuning"
    return results.measure("accuracy", stage=stage, start=start)
