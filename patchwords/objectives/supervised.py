"""Learning from labels: cross-entropy over a softmax, or over one sigmoid a class."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor
from torch.nn import functional as F

from patchwords.errors import UsageError
from patchwords.models.model import Model
from patchwords.objectives.objective import Batch, Numbers, Objective, Surroundings
from patchwords.settings import below_one, check


@dataclass(frozen=True, kw_only=True, slots=True)
class Supervised:
    """The kind of cross-entropy, and the share of every target that is spread over all classes."""

    kind: ClassVar[str] = "supervised"
    following: ClassVar[str] = ""  # its scores speak for themselves
    loss: Literal["softmax", "sigmoid"] = "softmax"
    smoothing: float = 0.0
    mixed: Literal["shares", "whole"] = "shares"  # whether a mixed picture is each of its classes in part, or wholly

    def __post_init__(self) -> None:
        check(self)
        below_one(smoothing=self.smoothing)
        if self.mixed == "whole" and self.loss == "softmax":
            raise UsageError(
                "mixed whole makes a picture wholly of two classes, which no softmax can say: use loss sigmoid"
            )

    def classes(self, of_data: int) -> int:
        """How many the model's head has: those of the data."""
        return of_data

    def build(self, model: Model, around: Surroundings) -> "Classification":
        return Classification(model, self)


class Classification(Objective):
    """Pictures and targets (batch, classes), which may be soft, to the loss and the share of right answers."""

    needs = ("image", "target")

    def __init__(self, model: Model, settings: Supervised):
        super().__init__()
        self.model = model
        self.settings = settings

    def forward(self, batch: Batch) -> tuple[Tensor, Numbers]:
        logits, target = self.model(batch["image"]).float(), batch["target"]
        right = logits.argmax(1) == target.argmax(1)
        return cross_entropy(logits, target, self.settings), {"accuracy": right.float().mean()}


def cross_entropy(logits: Tensor, target: Tensor, settings: Supervised) -> Tensor:
    """The mean over the batch; sigmoids are summed over the classes, as in big_vision."""
    target = target.gt(0).to(target.dtype) if settings.mixed == "whole" else target  # DeiT III
    target = target * (1 - settings.smoothing) + settings.smoothing / target.shape[1]
    if settings.loss == "softmax":
        return F.cross_entropy(logits, target)
    return F.binary_cross_entropy_with_logits(logits, target, reduction="sum") / logits.shape[0]
