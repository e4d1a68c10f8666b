"""The stream with matrix products in eight bits (e4m3): every row of both sides has its own scale.

The scales of weights are found once, those of activations by the kernels that make them, so nothing is to be calibrated
and no outlier of one picture touches another. The last layer stays in sixteen bits: the answer is made of it.

How large what attention makes can be is known before there is a picture: it is a mean of values v, which a matrix makes
of normalised rows. So it is rounded as it is made, with a factor for each column that the next matrix has the inverse
of.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from patchwords.layers.block import Block
from patchwords.layers.tokens import Tokens
from patchwords.speed.fused.parts import form
from patchwords.speed.fused.stream import Stream, Weights, attended, by_own_kernel, layers
from patchwords.speed.kernels.norm import LARGEST, LEAST, rounded
from patchwords.speed.kernels.table import Kernels

ROOM = 1.25  # for what rounding to eight bits has added to values by then; the rest would be cut off


class Rounded(NamedTuple):
    """A matrix (rows, width) in eight bits, and the scale of each row (1, rows)."""

    matrix: Tensor
    scale: Tensor


class EightLayer(NamedTuple):
    """A layer's weights, the matrices rounded; the factors of what attention makes, and eq. 8's matrix for that."""

    weights: Weights
    qkv: Rounded
    out: Rounded
    fc1: Rounded
    fc2: Rounded
    factors: Tensor
    out_of_factors: Rounded


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
        branch = None  # what was made last, where it is not in the stream yet
        for layer in self.layers:
            weights = layer.weights
            y = k.norm_eight(x, branch, weights.lacks1, *weights.norm1, self.epsilon)
            qkv = k.product_eight(*y, *layer.qkv, weights.qkv[1]).view(batch, length, -1)
            branch = k.product_eight_added(*self._joined(qkv, layer), x)
            y = k.norm_eight(x, branch, weights.lacks2, *weights.norm2, self.epsilon)
            h = k.product_eight(*y, *layer.fc1, None)
            branch = k.product_eight_added(*k.gelu_eight(h, weights.fc1[1], self.form), *layer.fc2, x)
        if branch is not None:
            x = x.add_(branch)
        return self.end(tokens.replace(x.view(batch, length, width)))

    def _joined(self, qkv: Tensor, layer: EightLayer) -> tuple[Tensor, ...]:
        """Eq. 6 and 7, and the matrix of eq. 8 for them; both with their scales."""
        k = self.kernels
        if not by_own_kernel(qkv, self.heads):
            return *k.eight(attended(qkv, self.heads, k)), *layer.out
        rows = k.short_eight(qkv, self.heads, layer.factors)
        return rows, torch.ones(len(rows), 1, device=rows.device), *layer.out_of_factors


def eight_layer(weights: Weights) -> EightLayer:
    factors = LARGEST / (ROOM * largest(weights)).clamp(min=LEAST)
    return EightLayer(
        weights,
        qkv=_rounded(weights.qkv[0]),
        out=_rounded(weights.out),
        fc1=_rounded(weights.fc1[0]),
        fc2=_rounded(weights.fc2),
        factors=factors,
        out_of_factors=_rounded(weights.out.float() / factors),
    )


def largest(weights: Weights) -> Tensor:
    """No value v, and so no mean of values, is larger, each in its place, but for what rounding adds.

    A row of mean 0 and deviation 1 is as long as the root of its width, and a product with it at most that long.
    """
    (matrix, bias), (scale, shift) = weights.qkv, weights.norm1
    of_v, added = matrix.chunk(3)[2].float(), 0.0 if bias is None else bias.chunk(3)[2].float()
    return len(scale) ** 0.5 * (of_v * scale).norm(dim=1) + (of_v @ shift.float() + added).abs()


def _rounded(matrix: Tensor) -> Rounded:
    rows, scale = rounded(matrix)
    return Rounded(rows, scale.T)
