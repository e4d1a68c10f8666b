"""Section 3.1, "Hybrid Architecture": patches are cut from the feature map of a ResNet instead of the picture."""

from dataclasses import dataclass

from torch import Tensor, nn

from patchwords.layers.bottleneck import POST, Form, Root, check_groups, stages
from patchwords.settings import at_least


@dataclass(frozen=True, kw_only=True, slots=True)
class ResNetStem:
    """A ResNet without its classifier: the root, then `units` in each stage (none for the R of R+ViT-Ti/16)."""

    units: tuple[int, ...]
    width: int = 64
    form: Form = POST

    def __post_init__(self) -> None:
        at_least(1, units=min(self.units, default=1))
        check_groups(self.width)

    @property
    def channels(self) -> int:
        """Channels of the feature map that the patches are cut from."""
        return 4 * self.width * 2 ** (len(self.units) - 1) if self.units else self.width

    @property
    def stride(self) -> int:
        """Pixels of the picture between two places of that map: 4 after the root, doubled by each later stage."""
        return 4 << max(len(self.units) - 1, 0)

    def size(self, image: tuple[int, int]) -> tuple[int, int]:
        """Height and width of that feature map."""
        return -(-image[0] // self.stride), -(-image[1] // self.stride)

    def build(self, channels: int) -> nn.Module:
        return ResNetFeatures(self, channels)


class ResNetFeatures(nn.Module):
    def __init__(self, config: ResNetStem, channels: int):
        super().__init__()
        self.root = Root(channels, config.width, config.form)
        self.stages = stages(config.units, config.width, config.form)

    def forward(self, images: Tensor) -> Tensor:
        x = self.root(images)
        for stage in self.stages:
            x = stage(x)
        return x  # (batch, channels, rows, cols)

    def filters(self) -> Tensor:
        return self.root.filters()
