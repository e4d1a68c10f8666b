"""Three ways to a model of one's own pictures: the head alone, all of it, and without what was learned before."""

# ruff: noqa: RUF001  (Chinese has commas of its own)

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from patchwords.pages.both import Both
from patchwords.studies.cell import Cell
from patchwords.studies.experiment import Experiment, Finding
from patchwords.studies.figure import Panel, over
from patchwords.studies.grid import refuse_own
from patchwords.studies.ground import Ground
from patchwords.studies.results import Measure, Results, apart, told
from patchwords.studies.wording import NOTHING, beside, sentence, verdict

FROZEN, FULL, SCRATCH = "head alone", "all of it", "from scratch"
PAPER = Both(
    "on few pictures a model that learned from many before is far ahead of one that did not",
    "图像很少时，预先在大量图像上学习过的模型远胜于没有学习过的",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Transfer(Experiment):
    """The runs of a well-known reproduction on five kinds of flowers, for any weights and any pictures."""

    name: ClassVar[str] = "transfer"
    of: ClassVar[str] = "Section 4.2"
    title: ClassVar[Both] = Both("Transfer", "迁移")
    question: ClassVar[Both] = Both(
        "What are weights worth for pictures of one's own, and must all of them be trained?",
        "预训练权重对自己的图像有多大价值？需要训练全部参数吗？",
    )
    model: str
    head: dict[str, Any] = field(default_factory=dict)  # over fine-tuning, for the head alone
    scratch: dict[str, Any] = field(default_factory=dict)  # over learning from scratch

    def __post_init__(self) -> None:
        for table in (self.head, self.scratch):
            refuse_own(table)

    def cells(self, ground: Ground, seeds: Sequence[int]) -> Iterator[Cell]:
        head = {"freeze": "backbone", **self.head}
        for seed in seeds:
            at = {"model": self.model}
            if ground.weights:
                yield ground.adopt({**at, "trained": FROZEN}, seed, head)
                yield ground.adopt({**at, "trained": FULL}, seed)
            else:
                learned = ground.learn(at, seed)
                yield learned
                yield ground.tune(learned, {"trained": FROZEN}, head)
                yield ground.tune(learned, {"trained": FULL})
            yield ground.scratch({**at, "trained": SCRATCH}, seed, self.scratch)

    def panels(self, results: Results) -> list[Panel]:
        trained = over(self.model, {way: _measure(results, way) for way in (FROZEN, FULL, SCRATCH)})
        return [Panel(title="The target's pictures", across="what was trained", lines=[trained], scale="names")]

    def finding(self, results: Results) -> Finding:
        frozen, full, scratch = (_measure(results, way) for way in (FROZEN, FULL, SCRATCH))
        if not (frozen and full and scratch):
            return Finding(NOTHING, verdict(None, PAPER))
        here = sentence(
            beside(
                Both("the whole model, fine-tuned,", "微调全部参数后"),
                full,
                Both("what began from scratch", "从零训练"),
                scratch,
            ),
            Both(f"with the head alone trained it has {frozen}", f"只训练分类头时为 {frozen}"),
        )
        return Finding(here, verdict(told(apart(full, scratch)), PAPER))


def _measure(results: Results, way: str) -> Measure | None:
    return results.measure("accuracy", trained=way)
