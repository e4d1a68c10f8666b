"""The stream with matrix products in eight bits (e4m3): every row of both sides has its own scale.

The scales of weights are found once, those of activations by the kernels that make them, so nothing is to be calibrated
and no outlier of one picture touches another. The last layer stays in sixteen bits: the answer is made of it.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from patchwords.layers.block import Block
from patchwords.layers.tokens import Tokens
from patchwords.speed.fused.parts import form
from patchwords.speed.fused.stream import Stream, Weights, attended, layers
from patchwords.speed.kernels.norm import rounded
from patchwords.speed.kernels.table import Kernels


class Rounded(NamedTuple):
    """A matrix (rows, width) in eight bits, and the scale of each row (1, rows)."""

    matrix: Tensor
    scale: Tensor


class EightLayer(NamedTuple):
    """A layer's weights, the matrices rounded."""

    weights: Weights
    qkv: Rounded
    out: Rounded
    fc1: Rounded
    fc2: Rounded


class EightStream:
    """As `Stream`, for all layers but the last."""

    def __init__(
        self, blocks: Sequence[Block], norm: nn.Module, front: int | None, kernels: Kernels, dtype: torch.dtype
    ):
        self.kernels, self.dtype = kernels, dtype
        self.heads, self.epsilon, self.form = blocks[0].attention.heads, blocks[0].norm1.eps, form(blocks[0].mlp)
        found, lacks = layers(blocks[:-1], dtype, torch.zeros_like(blocks[0].norm1.weight))
        self.layers = [eight_layer(weights) for weights in found]
        self.end = Stream(blocks[-1:], norm, front, kernels, dtype, lacks)

    def __call__(self, tokens: Tokens) -> Tokens:
        batch, length, width = tokens.x.shape
        x, k = tokens.x.to(self.dtype).reshape(-1, width), self.kernels
        branch = None  # what was made last, and is not in the stream yet
        for layer in self.layers:
            weights = layer.weights
            y = k.norm_eight(x, branch, weights.lacks1, *weights.norm1, self.epsilon)
            qkv = k.product_eight(*y, *layer.qkv, weights.qkv[1]).view(batch, length, -1)
            out = attended(qkv, self.heads, k)
            branch = k.product_eight(*k.eight(out), *layer.out, None)
            y = k.norm_eight(x, branch, weights.lacks2, *weights.norm2, self.epsilon)
            h = k.product_eight(*y, *layer.fc1, None)
            branch = k.product_eight(*k.gelu_eight(h, weights.fc1[1], self.form), *layer.fc2, None)
        if branch is not None:
            x = x.add_(branch)
        return self.end(tokens.replace(x.view(batch, length, width)))


def eight_layer(weights: Weights) -> EightLayer:
    matrices = (weights.qkv[0], weights.out, weights.fc1[0], weights.fc2)
    return EightLayer(weights, *(Rounded(matrix, scale.T) for matrix, scale in map(rounded, matrices)))
