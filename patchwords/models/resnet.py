"""ResNet (BiT), the paper's convolutional baseline: GroupNorm for BatchNorm, and standardised convolutions."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from torch import Tensor, nn

from patchwords.errors import UsageError
from patchwords.layers.bottleneck import PRE, Form, NormReLU, Root, check_groups, stages
from patchwords.layers.encoder import numbered
from patchwords.layers.head import Linear, shares
from patchwords.layers.look import Gaze
from patchwords.models.model import Model, Shows
from patchwords.settings import at_least, check

NO_ATTENTION = "a ResNet has no attention weights: ask a ViT, or a hybrid, for them"

# Units in each stage, by depth.
UNITS: dict[int, tuple[int, int, int, int]] = {
    26: (2, 2, 2, 2),
    50: (3, 4, 6, 3),
    101: (3, 4, 23, 3),
    152: (3, 8, 36, 3),
    200: (3, 24, 36, 3),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class ResNetConfig:
    """R{depth}x{factor}: `units` in each stage, `width` = 64 · factor channels after the root."""

    kind: ClassVar[str] = "resnet"
    units: tuple[int, ...]
    width: int = 64
    form: Form = PRE
    image: tuple[int, int] = (224, 224)
    channels: int = 3
    classes: int = 1000
    head: Linear = field(default_factory=Linear)

    def __post_init__(self) -> None:
        check(self)
        at_least(1, units=min(self.units, default=0), width=self.width, channels=self.channels, image=min(self.image))
        at_least(0, classes=self.classes)
        check_groups(self.width)

    def build(self) -> "ResNet":
        return ResNet(self)


class ResNet(Model):
    """Root, stages, mean over the map, head."""

    def __init__(self, config: ResNetConfig):
        super().__init__()
        self.config = config
        channels = 4 * config.width * 2 ** (len(config.units) - 1)
        self.root = Root(config.channels, config.width, config.form)
        self.stages = stages(config.units, config.width, config.form)
        self.norm = NormReLU(config.form.norm(channels)) if config.form.activation == "pre" else nn.Identity()
        self.head = config.head.build(channels, config.classes)

    def trace(self, images: Tensor) -> Iterator[Tensor]:
        """The map after each stage."""
        x = self.root(images)
        for stage in self.stages:
            x = stage(x)
            yield x

    def maps(self, images: Tensor) -> Tensor:
        """What the mean is taken of: (batch, channels, rows, cols)."""
        x = self.root(images)
        for stage in self.stages:
            x = stage(x)
        return self.norm(x)

    def represent(self, images: Tensor) -> Tensor:
        return self.maps(images).mean((2, 3))

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.represent(images))

    def pair(self, images: Tensor) -> tuple[Tensor, Tensor]:
        return self.head.pair(self.represent(images))

    def features(self, images: Tensor, at: Sequence[int]) -> list[Tensor]:
        return numbered(at, len(self.stages), self.trace(images), lambda x: x)

    def attention(self, images: Tensor, at: Sequence[int]) -> list[Tensor]:
        raise UsageError(NO_ATTENTION)

    def gaze(self, images: Tensor) -> Gaze:
        raise UsageError(NO_ATTENTION)

    def evidence(self, images: Tensor, of: Tensor) -> Tensor:
        return shares(self.maps(images), self.head.classifier, of)

    @property
    def shows(self) -> Shows:
        return "evidence" if self.config.classes else "nothing"

    def filters(self) -> Tensor:
        return self.root.filters().detach()

    def positions(self) -> Tensor:
        raise UsageError("a ResNet adds nothing for a place: its convolutions know where they are by their neighbours")
