"""Linear layers for a CPU: weights laid out once as oneDNN's kernels read them, in float32, bf16 or int8."""

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

# Whole steps between the least and the greatest value of a tensor. One less than a byte has, so that rounding cannot
# leave it; half of them where products of bytes are summed in pairs of 16 bits, which overflow (before VNNI).
STEPS, STEPS_BEFORE_VNNI = 254, 127


class Then(NamedTuple):
    """What is done to a product while it is still in the cache, in oneDNN's words."""

    operation: str = "none"
    form: str = ""


def then(activation: nn.GELU) -> Then:
    return Then("gelu", activation.approximate)


class Packed(nn.Module):
    """x Wᵀ + b, all of one kind of numbers."""

    def __init__(self, weight: Tensor, bias: Tensor | None, after: Then, dtype: torch.dtype):
        super().__init__()
        self.weight = torch.ops.mkldnn._reorder_linear_weight(weight.to(dtype))
        self.bias = None if bias is None else bias.to(dtype)
        self.after = after

    def forward(self, x: Tensor) -> Tensor:
        after = self.after
        return torch.ops.mkldnn._linear_pointwise(x, self.weight, self.bias, after.operation, [], after.form)


class Int8(nn.Module):
    """The same by bytes: weights have a scale for each output, inputs the scale and zero that they need this time."""

    def __init__(self, weight: Tensor, bias: Tensor | None, after: Then, dtype: torch.dtype):
        super().__init__()
        whole, self.scale = rounded(weight)
        self.weight = torch.ops.onednn.qlinear_prepack(whole, None)
        self.zero = torch.zeros(len(whole), dtype=torch.int32)
        self.bias = None if bias is None else bias.float()
        self.after, self.dtype = after, dtype
        self.steps = STEPS if torch.cpu._is_vnni_supported() else STEPS_BEFORE_VNNI

    def forward(self, x: Tensor) -> Tensor:
        whole, scale, zero = quantised(x.flatten(0, -2), self.steps)
        given, after = (whole, scale, zero, self.weight, self.scale, self.zero, self.bias), self.after
        x_w = torch.ops.onednn.qlinear_pointwise(*given, 1.0, 0, self.dtype, after.operation, [], after.form)
        return x_w.unflatten(0, x.shape[:-1])


def rounded(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Weights (outputs, inputs) as signed bytes, and what one step means in each row."""
    scale = (weight.float().abs().amax(1) / 127).clamp_min(torch.finfo(torch.float32).tiny)
    return (weight.float() / scale[:, None]).round().to(torch.int8), scale


def quantised(x: Tensor, steps: int) -> tuple[Tensor, float, int]:
    """A tensor as bytes, what one step means, and which byte is 0: x ≈ scale · (bytes - zero)."""
    x = x.float()
    ends = [end.item() for end in torch.aminmax(x)]  # numbers from here on: on so few, torch's calls would cost more
    low, high = min(ends[0], 0.0), max(ends[1], 0.0)  # so that there is a byte for 0
    scale = max((high - low) / steps, torch.finfo(torch.float32).tiny)
    if not math.isfinite(scale):
        return torch.zeros_like(x, dtype=torch.uint8), math.nan, 0  # what is no number stays none
    zero = round(-low / scale)
    return torch.add(torch.tensor(zero + 0.5), x, alpha=1 / scale).to(torch.uint8), scale, zero  # the cast cuts off
