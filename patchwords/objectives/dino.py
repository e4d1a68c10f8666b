"""DINO (Caron et al., 2021): self-distillation without labels, from a teacher that is the student's moving average.

The student sees every crop of a picture, the teacher the large ones; each answer of the student should be the teacher's
to another crop. That all pictures get one answer is kept away by two means that pull apart: the teacher's answers are
centred (no output wins always) and sharpened (not all outputs are the same).
"""

import copy
import math
from dataclasses import dataclass
from typing import ClassVar, Self

import torch
import torch.distributed as dist
from torch import Tensor, nn

from patchwords.errors import UsageError
from patchwords.models.model import Model
from patchwords.objectives.objective import FEATURES, Batch, Numbers, Objective, Surroundings
from patchwords.objectives.projector import Projector
from patchwords.settings import at_least, check


@dataclass(frozen=True, kw_only=True, slots=True)
class Dino:
    """The head's sizes, the temperatures, and how slowly the `centre` and the teacher (`momentum`) follow.

    `warmup` and `held` are shares of the training: in the one the teacher's temperature comes from `first_temperature`
    to its own, in the other the head's last layer does not move.
    """

    kind: ClassVar[str] = "dino"
    following: ClassVar[str] = FEATURES
    outputs: int = 65536
    hidden: int = 2048
    bottleneck: int = 256
    temperature: float = 0.1
    teacher_temperature: float = 0.04
    first_temperature: float = 0.04
    warmup: float = 0.0
    centre: float = 0.9
    momentum: float = 0.996  # at first; it rises to 1 on a cosine
    held: float = 0.01

    def __post_init__(self) -> None:
        check(self)
        at_least(2, outputs=self.outputs)
        at_least(1, hidden=self.hidden, bottleneck=self.bottleneck)
        for name in ("temperature", "teacher_temperature", "first_temperature"):
            if not getattr(self, name) > 0:
                raise UsageError(f"{name} {getattr(self, name)} is no temperature: choose one above 0")
        for name in ("warmup", "centre", "momentum", "held"):
            if not 0 <= getattr(self, name) <= 1:
                raise UsageError(f"{name} {getattr(self, name)} is no share: choose one from 0 to 1")

    def classes(self, of_data: int) -> int:
        """None: nothing is asked about labels."""
        return 0

    def build(self, model: Model, around: Surroundings | None = None) -> "SelfDistillation":
        """The objective; it asks nothing of its surroundings."""
        return SelfDistillation(model, self)

    def momentum_at(self, progress: float) -> float:
        """How much of the teacher stays in an update after this share of the training."""
        return 1 - (1 - self.momentum) * (1 + math.cos(math.pi * progress)) / 2


class SelfDistillation(Objective):
    """`model` is the student; its pictures come in crops: `large` (batch, crops, …), and `small` where there are any.

    Pictures to be judged by come alone: then the teacher's answer to the picture itself is asked for.
    """

    needs = ("image", "large")
    centre: Tensor
    progress: Tensor
    total: Tensor
    counted: Tensor

    def __init__(self, model: Model, settings: Dino):
        super().__init__()
        self.model = model
        self.settings = settings
        self.head = Projector(_width(model), settings.hidden, settings.bottleneck, settings.outputs)
        self.teacher = Teacher(copy.deepcopy(model), copy.deepcopy(self.head))
        self.register_buffer("centre", torch.zeros(settings.outputs))
        self.register_buffer("progress", torch.zeros(()))  # before the next step
        self.register_buffer("total", torch.zeros(settings.outputs), persistent=False)  # of the teacher's logits,
        self.register_buffer("counted", torch.zeros(()), persistent=False)  # so many, in this step

    def train(self, mode: bool = True) -> Self:
        """The teacher is never in training: no dropout of its own stands between it and the student."""
        super().train(mode)
        self.teacher.eval()
        return self

    def forward(self, batch: Batch) -> tuple[Tensor, Numbers]:
        large = batch["large"] if "large" in batch else batch["image"][:, None].expand(-1, 2, -1, -1, -1)
        student = self.student(large, batch.get("small")) / self.settings.temperature
        targets = self.targets(large)  # logarithms, like the student's
        return agreement(targets.exp(), student.log_softmax(-1)), spread(targets)

    def student(self, large: Tensor, small: Tensor | None) -> Tensor:
        """The logits of all crops, the large ones first: (batch, crops, outputs)."""
        crops = [self.model.represent(large.flatten(0, 1)).unflatten(0, large.shape[:2])]
        if small is not None:
            crops.append(self.model.glimpse(small.flatten(0, 1)).unflatten(0, small.shape[:2]))
        logits: Tensor = self.head(torch.cat(crops, 1), self.learns)
        return logits.float()

    @torch.no_grad()
    def targets(self, large: Tensor) -> Tensor:
        """The logarithms of what the teacher answers to the large crops: (batch, crops, outputs)."""
        logits = self.teacher(large.flatten(0, 1), self.learns).float()
        if self.training:
            self.total += logits.sum(0)
            self.counted += logits.shape[0]
        centred = (logits - self.centre) / self.teacher_temperature
        return centred.log_softmax(-1).unflatten(0, large.shape[:2])

    @property
    def learns(self) -> Tensor:
        """1 where the last layer of the head moves."""
        return (self.progress >= self.settings.held).float()

    @property
    def teacher_temperature(self) -> Tensor:
        settings = self.settings
        first, last, warmup = settings.first_temperature, settings.teacher_temperature, settings.warmup
        share = (self.progress / warmup).clamp(max=1) if warmup else torch.ones_like(self.progress)
        return first + (last - first) * share

    def before_step(self) -> None:
        self.total.zero_()
        self.counted.zero_()

    @torch.no_grad()
    def after_step(self, progress: float) -> None:
        """The teacher follows the student, the centre the teacher's logits of the whole batch, of all processes."""
        if dist.is_available() and dist.is_initialized():
            dist.all_reduce(self.total)
            dist.all_reduce(self.counted)
        kept = self.settings.centre * (self.progress > 0)  # the first batch is where the centre begins
        self.centre.lerp_(self.total / self.counted, 1 - kept)
        self.teacher.follow(self.model, self.head, self.settings.momentum_at(progress))
        self.progress.fill_(progress)


class Teacher(nn.Module):
    """A model and a head that nobody trains."""

    def __init__(self, model: Model, head: Projector):
        super().__init__()
        self.model = model
        self.head = head
        self.requires_grad_(False).eval()

    def forward(self, images: Tensor, learns: Tensor) -> Tensor:
        logits: Tensor = self.head(self.model.represent(images), learns)
        return logits

    def follow(self, model: Model, head: Projector, momentum: float) -> None:
        """A share `momentum` of it stays, the rest becomes the student's."""
        own: list[Tensor] = list(self.parameters())
        theirs: list[Tensor] = [*model.parameters(), *head.parameters()]
        torch._foreach_lerp_(own, theirs, 1 - momentum)
        for mine, other in zip(self.buffers(), [*model.buffers(), *head.buffers()], strict=True):
            mine.copy_(other)


def agreement(targets: Tensor, student: Tensor) -> Tensor:
    """The cross-entropy of logarithms (batch, crops, outputs) to targets, over all pairs of two different crops.

    The crops with targets come first. The sum over all pairs is a product of two sums; what is too much is taken away.
    """
    seen, crops = targets.shape[1], student.shape[1]
    every = (targets.sum(1) * student.sum(1)).sum(-1)
    same = (targets * student[:, :seen]).sum((1, 2))
    return (same - every).mean() / (seen * crops - seen)


def spread(targets: Tensor) -> Numbers:
    """How sure the teacher is, and how much its answer tells of the picture: 0 nats if all pictures get the same."""
    entropy = -(targets.exp() * targets).sum(-1).mean()
    mean = targets.exp().mean((0, 1))
    return {"teacher_entropy": entropy, "information": -torch.xlogy(mean, mean).sum() - entropy}


@torch.no_grad()
def _width(model: Model) -> int:
    """Of what the classifier would see, for any model."""
    config = model.config
    place = next(model.parameters()).device
    return model.eval().represent(torch.zeros(1, config.channels, *config.image, device=place)).shape[1]
