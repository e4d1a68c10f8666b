"""The official code's initial values; torch's own differ in two places that matter (see each function)."""

import math

import torch
from torch import Tensor, nn

# A normal law cut at two deviations keeps this share of its deviation; JAX divides by it, torch does not.
TRUNCATED_DEVIATION = 0.87962566103423978


@torch.no_grad()
def lecun_normal_(weight: Tensor) -> None:
    """Truncated normal of variance 1 / fan in, after the truncation."""
    fan_in = weight[0].numel()
    std = fan_in**-0.5 / TRUNCATED_DEVIATION
    nn.init.trunc_normal_(weight, std=std, a=-2 * std, b=2 * std)


@torch.no_grad()
def xavier_uniform_(weight: Tensor, parts: int = 1) -> None:
    """Xavier's bound for each of `parts` stacked matrices by itself: a fused q, k, v is three matrices, not one."""
    for part in weight.chunk(parts):
        bound = math.sqrt(6 / (part.shape[0] + part.shape[1]))
        part.uniform_(-bound, bound)


def dense(inputs: int, outputs: int, parts: int = 1, bias: str = "zeros") -> nn.Linear:
    """A linear layer as Flax starts it in attention: Xavier kernel and `bias` "zeros", or "none" of it."""
    layer = nn.Linear(inputs, outputs, bias=bias != "none")
    xavier_uniform_(layer.weight, parts)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
    return layer
