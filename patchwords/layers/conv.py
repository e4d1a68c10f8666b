"""The convolutions of ResNet (BiT): weight standardisation, and the two paddings in use."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from patchwords.layers.initialise import lecun_normal_
from patchwords.settings import check

Padding = Literal["same", "symmetric"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Standardise:
    """Mean 0, deviation 1 for each output; `epsilon` is added to the deviation, or under the root to the variance."""

    to: Literal["deviation", "variance"] = "deviation"
    epsilon: float = 1e-5

    def __post_init__(self) -> None:
        check(self)

    def __call__(self, weight: Tensor) -> Tensor:
        variance, mean = torch.var_mean(weight, dim=(1, 2, 3), keepdim=True, correction=0)
        if self.to == "deviation":
            return (weight - mean) / (variance.sqrt() + self.epsilon)
        return (weight - mean) * torch.rsqrt(variance + self.epsilon)


class StandardisedConv(nn.Module):
    """A convolution without bias whose kernel is standardised each time it is used."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, padding: Padding, standardise: Standardise):
        super().__init__()
        self.stride, self.padding, self.standardise = stride, padding, standardise
        self.weight = nn.Parameter(torch.empty(outputs, inputs, kernel, kernel))
        lecun_normal_(self.weight)

    def extra_repr(self) -> str:
        return f"{'x'.join(map(str, self.weight.shape))}, stride={self.stride}, padding={self.padding}"

    def forward(self, x: Tensor) -> Tensor:
        x = pad(x, self.weight.shape[2], self.stride, self.padding)
        return F.conv2d(x, self.standardise(self.weight), stride=self.stride)


def pad(x: Tensor, kernel: int, stride: int, padding: Padding) -> Tensor:
    """Zeros around a picture: (kernel - 1) / 2 on each side, or as TensorFlow's SAME, the odd one below and right."""
    if padding == "symmetric":
        return F.pad(x, [(kernel - 1) // 2] * 4) if kernel > 1 else x
    (top, bottom), (left, right) = (same(size, kernel, stride) for size in x.shape[2:])
    return F.pad(x, (left, right, top, bottom)) if top + bottom + left + right else x


def same(size: int, kernel: int, stride: int) -> tuple[int, int]:
    """SAME padding before and after one axis: as little as gives ceil(size / stride) outputs."""
    total = max((-(-size // stride) - 1) * stride + kernel - size, 0)
    return total // 2, total - total // 2
