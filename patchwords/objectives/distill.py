"""DeiT (Touvron et al., 2021): learning from labels and from the answers of a teacher.

A model with a distillation token answers twice: its class token learns from the labels, the other from the teacher.
Any other model answers once, and that learns from both (Hinton et al., 2015; the paper's Table 3).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal, Self

import torch
from torch import Tensor
from torch.nn import functional as F

from patchwords.data.order import Indices
from patchwords.errors import UsageError
from patchwords.models.model import Model
from patchwords.objectives.objective import Batch, Drawn, Numbers, Objective, Surroundings
from patchwords.objectives.supervised import Supervised, cross_entropy
from patchwords.objectives.teacher import Asked, Remembered, Teacher, order
from patchwords.settings import check


@dataclass(frozen=True, kw_only=True, slots=True)
class Distill:
    """Who teaches; whether its first choice (`hard`) or its probabilities (`soft`) are learned, with share `alpha`.

    `loss` and `smoothing` are about the labels. With `cache` the teacher is asked once about every picture, which must
    always look the same.
    """

    kind: ClassVar[str] = "distill"
    following: ClassVar[str] = ""  # its scores speak for themselves
    teacher: str = ""
    how: Literal["hard", "soft"] = "hard"
    alpha: float = 0.5
    temperature: float = 1.0  # divides both logits where probabilities are learned
    loss: Literal["softmax", "sigmoid"] = "softmax"
    smoothing: float = 0.0
    cache: bool = False

    def __post_init__(self) -> None:
        check(self)
        self.labels  # noqa: B018  (checks smoothing)
        if not 0 <= self.alpha <= 1:
            raise UsageError(f"alpha {self.alpha} is no share of the loss: choose one from 0 to 1")
        if not 0 < self.temperature < float("inf"):
            raise UsageError(f"temperature {self.temperature} is not above 0: 1 leaves the logits as they are")

    @property
    def labels(self) -> Supervised:
        """How the labels are learned."""
        return Supervised(loss=self.loss, smoothing=self.smoothing)

    @property
    def guide(self) -> str:
        """Who teaches, which somebody has to say."""
        if not self.teacher:
            raise UsageError("nobody teaches: set objective.teacher to a run folder, a weights file or timm:NAME")
        return self.teacher

    def classes(self, of_data: int) -> int:
        """How many the model's heads have: those of the data."""
        return of_data

    def build(self, model: Model, around: Surroundings) -> "Distillation":
        guide = around.open(self.guide)
        outputs = order(guide, around, model.config.channels, self.teacher)
        if self.cache:
            return Distillation(model, self, Remembered(around.answers(guide)[:, outputs]))
        return Distillation(model, self, Asked(guide, around.preprocess, outputs))


class Distillation(Objective):
    """Pictures and targets (batch, classes) to (1 - alpha) · (labels' loss) + alpha · (teacher's loss).

    The teacher is no part of the module: it is not saved, not trained, and always in evaluation mode.
    """

    def __init__(self, model: Model, settings: Distill, teacher: Teacher):
        super().__init__()
        self.model = model
        self.settings, self.labels = settings, settings.labels
        self.teacher = teacher
        self.needs = ("image", "target", *teacher.needs)
        self.part = PARTS[settings.how]

    def forward(self, batch: Batch) -> tuple[Tensor, Numbers]:
        taught, target, settings = self.teacher(batch), batch["target"], self.settings
        by_label, by_teacher = (logits.float() for logits in self.model.pair(batch["image"]))
        labels = cross_entropy(by_label, target, self.labels)
        loss = (1 - settings.alpha) * labels + settings.alpha * self.part(by_teacher, taught, settings.temperature)
        right = (by_label + by_teacher).argmax(1) == target.argmax(1)  # their mean is what the model answers
        agreed = by_teacher.argmax(1) == taught.argmax(1)
        return loss, {"accuracy": right.float().mean(), "agreement": agreed.float().mean()}

    def drawn(self, seed: int, views: Indices, indices: Indices) -> Drawn:
        return self.teacher.drawn(indices)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """What torch calls to move a module: the teacher goes along."""
        self.teacher.move(fn)
        return super()._apply(fn, recurse)  # type: ignore[no-untyped-call]


def hard(logits: Tensor, taught: Tensor, temperature: float) -> Tensor:
    """Cross-entropy with the class that the teacher likes best; no temperature changes which one that is."""
    return F.cross_entropy(logits, taught.argmax(1))


def soft(logits: Tensor, taught: Tensor, temperature: float) -> Tensor:
    """τ² · KL(teacher ‖ student) of softmax(logits / τ): summed over the classes, a mean over the batch.

    The official code also divides by the number of classes, which the paper's equation 2 does not (docs/objectives).
    """
    student, teacher = (torch.log_softmax(x / temperature, 1) for x in (logits, taught))
    return temperature**2 * F.kl_div(student, teacher, reduction="batchmean", log_target=True)


PARTS: dict[str, Callable[[Tensor, Tensor, float], Tensor]] = {"hard": hard, "soft": soft}
