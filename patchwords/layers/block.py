"""Eq. 2 and 3: z′ = MSA(LN(z)) + z, then z = MLP(LN(z′)) + z′."""

import abc

from torch import Tensor, nn

from patchwords.layers.attention import Attention
from patchwords.layers.mlp import MLP
from patchwords.layers.residual import LayerScale, StochasticDepth
from patchwords.layers.unit import Unit


class Layer(Unit):
    """The parts of one layer: `scale` is the initial layer scale, `skip` the rate of stochastic depth."""

    def __init__(self, attention: Attention, mlp: MLP, epsilon: float, scale: float | None, skip: float):
        super().__init__()
        width = attention.out.out_features
        self.norm1 = nn.LayerNorm(width, eps=epsilon)
        self.attention = attention
        self.scale1 = nn.Identity() if scale is None else LayerScale(width, scale)
        self.norm2 = nn.LayerNorm(width, eps=epsilon)
        self.mlp = mlp
        self.scale2 = nn.Identity() if scale is None else LayerScale(width, scale)
        self.drop = StochasticDepth(skip)

    @abc.abstractmethod
    def forward(self, x: Tensor) -> Tensor: ...

    def weights(self, x: Tensor, heads: slice = slice(None), rows: slice = slice(None)) -> Tensor:
        """The attention weights that `forward(x)` uses, of these heads and queries."""
        return self.attention.weights(self.norm1(x), heads, rows)


class Block(Layer):
    """The paper's layer."""

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.drop(self.scale1(self.attention(self.norm1(x))))  # eq. 2
        return x + self.drop(self.scale2(self.mlp(self.norm2(x))))  # eq. 3


class StreamNormBlock(Layer):
    """The layer of the Compact Transformers, ViT-Lite among them: the second norm stands on the stream itself."""

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm2(x + self.drop(self.scale1(self.attention(self.norm1(x)))))
        return x + self.drop(self.scale2(self.mlp(x)))
