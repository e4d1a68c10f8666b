"""Learning from labels: cross-entropy over a softmax, or over one sigmoid a class."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor
from torch.nn import functional as F

from patchwords.errors import UsageError
from patchwords.models.model import Model
from patchwords.objectives.objective import Batch, Numbers, Objective
from patchwords.settings import check


@dataclass(frozen=True, kw_only=True, slots=True)
class Supervised:
    """The kind of cross-entropy, and the share of every target that is spread over all classes."""

    kind: ClassVar[str] = "supervised"
    loss: Literal["softmax", "sigmoid"] = "softmax"
    smoothing: float = 0.0

    def __post_init__(self) -> None:
        check(self)
        if not 0 <= self.smoothing < 1:
            raise UsageError(f"smoothing {self.smoothing} is no share: choose one from 0 up to, but below, 1")

    def build(self, model: Model) -> "Classification":
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

    def after_step(self, progress: float) -> None:
        """Nothing follows the model here."""


def cross_entropy(logits: Tensor, target: Tensor, settings: Supervised) -> Tensor:
    """The mean over the batch; sigmoids are summed over the classes, as in big_vision."""
    target = target * (1 - settings.smoothing) + settings.smoothing / target.shape[1]
    if settings.loss == "softmax":
        return F.cross_entropy(logits, target)
    return F.binary_cross_entropy_with_logits(logits, target, reduction="sum") / logits.shape[0]
