"""Section 3.2: fine-tuning with larger pictures, with the positions resampled or learned anew."""

# ruff: noqa: RUF001  (Chinese has commas of its own)

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from patchwords.pages.both import Both
from patchwords.studies.cell import Cell
from patchwords.studies.experiment import Experiment, Finding
from patchwords.studies.figure import Panel, over
from patchwords.studies.ground import Ground
from patchwords.studies.results import Measure, Results, apart, told
from patchwords.studies.wording import NOTHING, beside, sentence, verdict

SAME, RESAMPLED, ANEW = "same size", "larger, resampled", "larger, anew"
PAPER = Both(
    "it is often beneficial to fine-tune at a higher resolution than that of pre-training",
    "以高于预训练的分辨率微调往往有益",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Resolution(Experiment):
    """One model, fine-tuned three times."""

    name: ClassVar[str] = "resolution"
    of: ClassVar[str] = "Section 3.2"
    title: ClassVar[Both] = Both("Resolution", "分辨率")
    question: ClassVar[Both] = Both(
        "Does it help to fine-tune with larger pictures, and are the positions of any use there?",
        "用更大的图像微调有帮助吗？原来的位置嵌入在那里还有用吗？",
    )
    model: str
    larger: int

    def cells(self, ground: Ground, seeds: Sequence[int]) -> Iterator[Cell]:
        for seed in seeds:
            learned = ground.learn({"model": self.model}, seed)
            yield learned
            yield ground.tune(learned, {"size": SAME})
            yield ground.tune(learned, {"size": RESAMPLED}, {"image": self.larger})
            yield ground.tune(learned, {"size": ANEW}, {"image": self.larger, "positions": "anew"})

    def panels(self, results: Results) -> list[Panel]:
        tuned = over("fine-tuned", {way: _measure(results, way) for way in (SAME, RESAMPLED, ANEW)})
        return [Panel(title="Fine-tuned", across="pictures and positions", lines=[tuned], scale="names")]

    def finding(self, results: Results) -> Finding:
        same, resampled, anew = (_measure(results, way) for way in (SAME, RESAMPLED, ANEW))
        if not (same and resampled and anew):
            return Finding(NOTHING, verdict(None, PAPER))
        larger = Both(
            f"what was fine-tuned at {self.larger} pixels with resampled positions",
            f"以 {self.larger} 像素、重采样的位置嵌入微调后",
        )
        here = sentence(
            beside(larger, resampled, Both("what was fine-tuned at its first size", "以原来的大小微调"), same),
            beside(
                Both("what resampled its positions for that", "为此重采样位置嵌入"),
                resampled,
                Both("what learned them anew", "重新学习位置嵌入"),
                anew,
            ),
        )
        return Finding(here, verdict(told(apart(resampled, same)), PAPER))


def _measure(results: Results, way: str) -> Measure | None:
    return results.measure("accuracy", stage="fine-tuning", size=way)
