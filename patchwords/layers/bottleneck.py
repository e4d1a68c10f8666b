"""ResNet (BiT): GroupNorm and standardised convolutions, as in the paper's hybrids and as in BiT's weights."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn
from torch.nn import functional as F

from patchwords.errors import UsageError
from patchwords.layers.conv import Padding, Standardise, StandardisedConv, pad
from patchwords.layers.unit import Unit
from patchwords.ops.patches import check_pictures
from patchwords.settings import check

GROUPS = 32


@dataclass(frozen=True, kw_only=True, slots=True)
class Form:
    """How the units of a ResNet are written: activation after or before each convolution, and the small numbers."""

    activation: Literal["post", "pre"]
    padding: Padding
    epsilon: float  # of GroupNorm
    standardise: Standardise

    def __post_init__(self) -> None:
        check(self)

    def conv(self, inputs: int, outputs: int, kernel: int = 1, stride: int = 1) -> StandardisedConv:
        return StandardisedConv(inputs, outputs, kernel, stride, self.padding, self.standardise)

    def norm(self, channels: int) -> nn.GroupNorm:
        return nn.GroupNorm(GROUPS, channels, eps=self.epsilon)


POST = Form(activation="post", padding="same", epsilon=1e-6, standardise=Standardise())  # the official hybrids
PRE = Form(  # BiT's published weights
    activation="pre", padding="symmetric", epsilon=1e-5, standardise=Standardise(to="variance", epsilon=1e-10)
)


class Root(nn.Module):
    """7x7 convolution and 3x3 maximum, each of stride 2; the pre-activation form has no norm here."""

    def __init__(self, channels: int, width: int, form: Form):
        super().__init__()
        self.padding = form.padding
        self.conv = form.conv(channels, width, kernel=7, stride=2)
        self.norm = NormReLU(form.norm(width)) if form.activation == "post" else nn.Identity()

    def forward(self, images: Tensor) -> Tensor:
        check_pictures(images, self.conv.weight.shape[1])
        x = self.norm(self.conv(images))
        return F.max_pool2d(pad(x, 3, 2, self.padding), 3, 2)

    def filters(self) -> Tensor:
        """The kernels as they are used."""
        return self.conv.standardise(self.conv.weight)


class NormReLU(nn.Module):
    def __init__(self, norm: nn.GroupNorm):
        super().__init__()
        self.weight, self.bias, self.eps = norm.weight, norm.bias, norm.eps

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(F.group_norm(x, GROUPS, self.weight, self.bias, self.eps))


class PostUnit(Unit):
    """1x1, 3x3, 1x1, each followed by its norm; ReLU after the addition."""

    def __init__(self, inputs: int, middle: int, stride: int, form: Form):
        super().__init__()
        outputs = 4 * middle
        self.conv1, self.norm1 = form.conv(inputs, middle), NormReLU(form.norm(middle))
        self.conv2, self.norm2 = form.conv(middle, middle, 3, stride), NormReLU(form.norm(middle))
        self.conv3, self.norm3 = form.conv(middle, outputs), form.norm(outputs)
        nn.init.zeros_(self.norm3.weight)  # so that a unit starts as the identity
        same = inputs == outputs and stride == 1
        self.shortcut = (
            nn.Identity() if same else NormedProjection(form.conv(inputs, outputs, 1, stride), form.norm(outputs))
        )

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm1(self.conv1(x))
        y = self.norm2(self.conv2(y))
        y = self.norm3(self.conv3(y))
        return F.relu(y + self.shortcut(x))


class NormedProjection(nn.Module):
    def __init__(self, conv: StandardisedConv, norm: nn.GroupNorm):
        super().__init__()
        self.conv, self.norm = conv, norm

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.conv(x))


class PreUnit(Unit):
    """1x1, 3x3, 1x1, each preceded by its norm and ReLU; the shortcut's projection sees the first of them."""

    def __init__(self, inputs: int, middle: int, stride: int, form: Form):
        super().__init__()
        outputs = 4 * middle
        self.norm1, self.conv1 = NormReLU(form.norm(inputs)), form.conv(inputs, middle)
        self.norm2, self.conv2 = NormReLU(form.norm(middle)), form.conv(middle, middle, 3, stride)
        self.norm3, self.conv3 = NormReLU(form.norm(middle)), form.conv(middle, outputs)
        same = inputs == outputs and stride == 1
        self.shortcut = PlainShortcut() if same else ProjectedShortcut(form.conv(inputs, outputs, 1, stride))

    def forward(self, x: Tensor) -> Tensor:
        first = self.norm1(x)
        y = self.conv2(self.norm2(self.conv1(first)))
        return self.conv3(self.norm3(y)) + self.shortcut(x, first)


class PlainShortcut(nn.Module):
    def forward(self, x: Tensor, first: Tensor) -> Tensor:
        return x


class ProjectedShortcut(nn.Module):
    def __init__(self, conv: StandardisedConv):
        super().__init__()
        self.conv = conv

    def forward(self, x: Tensor, first: Tensor) -> Tensor:
        return self.conv(first)


BOTTLENECKS: dict[str, Callable[[int, int, int, Form], Unit]] = {"post": PostUnit, "pre": PreUnit}


class Stage(nn.Module):
    """Units of one resolution; the first of them carries the stride and changes the channels."""

    def __init__(self, units: int, inputs: int, middle: int, stride: int, form: Form):
        super().__init__()
        unit = BOTTLENECKS[form.activation]
        first = unit(inputs, middle, stride, form)
        self.units = nn.ModuleList([first, *(unit(4 * middle, middle, 1, form) for _ in range(units - 1))])

    def forward(self, x: Tensor) -> Tensor:
        for unit in self.units:
            x = unit(x)
        return x


def check_groups(width: int) -> None:
    if width < 1 or width % GROUPS:
        raise UsageError(f"width {width} is not a multiple of GroupNorm's {GROUPS} groups: choose one that is")


def stages(units: tuple[int, ...], width: int, form: Form) -> nn.ModuleList:
    """Stage i has middle width `width` · 2^i and halves the map, the first excepted."""
    inputs = [width, *(4 * width * 2**i for i in range(len(units)))]
    return nn.ModuleList(
        Stage(count, inputs[i], width * 2**i, 1 if i == 0 else 2, form) for i, count in enumerate(units)
    )
