"""Section 3.1: the classification head, with one hidden layer to pre-train and a single linear layer to fine-tune."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from patchwords.errors import UsageError
from patchwords.layers.initialise import lecun_normal_
from patchwords.settings import at_least


@dataclass(frozen=True, kw_only=True, slots=True)
class Linear:
    """One layer that starts at zero, its bias at `bias` (0 to fine-tune, -10 for ImageNet-21k's sigmoids)."""

    kind: ClassVar[str] = "linear"
    bias: float = 0.0

    @property
    def renewed(self) -> "Linear":
        """What takes its place for other classes (section 3.2)."""
        return Linear()

    def build(self, width: int, classes: int) -> "Head":
        return Head(nn.Identity(), classifier(width, classes, self.bias))


@dataclass(frozen=True, kw_only=True, slots=True)
class TanhMLP:
    """A hidden layer with tanh, the pre-logits, before the linear one; as wide as the model unless `hidden` is set."""

    kind: ClassVar[str] = "mlp"
    hidden: int | None = None
    bias: float = 0.0

    def __post_init__(self) -> None:
        at_least(1, hidden=1 if self.hidden is None else self.hidden)

    @property
    def renewed(self) -> Linear:
        return Linear()

    def build(self, width: int, classes: int) -> "Head":
        hidden = self.hidden or width
        return Head(PreLogits(width, hidden), classifier(hidden, classes, self.bias))


@dataclass(frozen=True, kw_only=True, slots=True)
class Distilled:
    """DeiT: a classifier that learns from the labels and one that learns from a teacher; their mean is the answer."""

    kind: ClassVar[str] = "distilled"
    bias: float = 0.0

    @property
    def renewed(self) -> "Distilled":
        return Distilled()

    def build(self, width: int, classes: int) -> "DistilledHead":
        return DistilledHead(classifier(width, classes, self.bias), classifier(width, classes, self.bias))


HeadKind = Linear | TanhMLP | Distilled


class Head(nn.Module):
    """y to logits. `represent` is what the last layer sees, and what few-shot evaluation uses as features."""

    def __init__(self, pre_logits: nn.Module, classifier: nn.Module):
        super().__init__()
        self.pre_logits = pre_logits
        self.classifier = classifier

    def represent(self, y: Tensor) -> Tensor:
        return self.pre_logits(y)

    def forward(self, y: Tensor) -> Tensor:
        return self.classifier(self.represent(y))

    def pair(self, y: Tensor) -> tuple[Tensor, Tensor]:
        """What learns from labels and what learns from a teacher: here the same logits."""
        logits = self(y)
        return logits, logits


class DistilledHead(nn.Module):
    """The class and the distillation token (batch, 2, width) to logits, each by a classifier of its own."""

    def __init__(self, classifier: nn.Module, teacher: nn.Module):
        super().__init__()
        self.classifier = classifier
        self.teacher = teacher

    def represent(self, y: Tensor) -> Tensor:
        return y.mean(1)

    def forward(self, y: Tensor) -> Tensor:
        by_label, by_teacher = self.pair(y)
        return (by_label + by_teacher) / 2

    def pair(self, y: Tensor) -> tuple[Tensor, Tensor]:
        """What learns from labels and what learns from a teacher."""
        return self.classifier(y[:, 0]), self.teacher(y[:, 1])


class PreLogits(nn.Module):
    def __init__(self, width: int, hidden: int):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(hidden, width))
        self.bias = nn.Parameter(torch.zeros(hidden))
        lecun_normal_(self.weight)

    def forward(self, y: Tensor) -> Tensor:
        return torch.tanh(nn.functional.linear(y, self.weight, self.bias))


def shares(maps: Tensor, classifier: nn.Module, of: Tensor) -> Tensor:
    """What a linear classifier over the mean of maps (batch, width, rows, cols) gets from each place for one class.

    (batch, rows, cols), whose mean is the logit without its bias (Zhou et al., 2016).
    """
    if not isinstance(classifier, nn.Linear):
        raise UsageError("a model without classes has no evidence for one")
    if not 0 <= int(of.min()) <= int(of.max()) < classifier.out_features:
        raise UsageError(f"there are classes 0 to {classifier.out_features - 1}, and evidence for no others")
    return torch.einsum("bwrc,bw->brc", maps, classifier.weight[of])


def classifier(width: int, classes: int, bias: float) -> nn.Module:
    """A zero-initialised linear layer; with no classes there is none, and the logits are the representation."""
    if classes == 0:
        return nn.Identity()
    layer = nn.Linear(width, classes)
    nn.init.zeros_(layer.weight)
    nn.init.constant_(layer.bias, bias)
    return layer
