"""Eq. 2 and 3 by hand, and the layer of the Compact Transformers."""

import math

import pytest
import torch
from torch import Tensor, nn

from patchwords.layers.attention import Attention, NoOffsets
from patchwords.layers.block import Block, Layer, StreamNormBlock
from patchwords.layers.mlp import MLP

WIDTH, HEADS, HIDDEN, EPSILON = 8, 2, 12, 1e-3


def layer(kind: type[Layer], scale: float | None = None) -> Layer:
    """A layer in float64 whose parameters all matter."""
    attention = Attention(WIDTH, HEADS, "qkv", NoOffsets(), 0.0, 0.0)
    block = kind(attention, MLP(WIDTH, HIDDEN, "gelu-tanh", 0.0), EPSILON, scale, 0.0).double()
    for parameter in block.parameters():
        nn.init.normal_(parameter)
    return block


def norm(x: Tensor, layer: nn.LayerNorm) -> Tensor:
    mean = x.mean(-1, keepdim=True)
    variance = ((x - mean) ** 2).mean(-1, keepdim=True)
    return (x - mean) / torch.sqrt(variance + EPSILON) * layer.weight + layer.bias


def gelu(x: Tensor) -> Tensor:
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def msa(x: Tensor, attention: Attention) -> Tensor:
    q, k, v = (x @ attention.qkv.weight.T + attention.qkv.bias).split(WIDTH, dim=-1)
    heads = []
    for part in (slice(0, 4), slice(4, 8)):
        weights = torch.softmax(q[..., part] @ k[..., part].mT / 2, -1)
        heads.append(weights @ v[..., part])
    return torch.cat(heads, -1) @ attention.out.weight.T + attention.out.bias


def mlp(x: Tensor, mlp: MLP) -> Tensor:
    return gelu(x @ mlp.fc1.weight.T + mlp.fc1.bias) @ mlp.fc2.weight.T + mlp.fc2.bias


@pytest.fixture
def x() -> Tensor:
    return torch.randn(2, 5, WIDTH, dtype=torch.float64)


def test_a_block_is_eq_2_and_then_eq_3(x: Tensor) -> None:
    block = layer(Block)
    z = msa(norm(x, block.norm1), block.attention) + x
    z = mlp(norm(z, block.norm2), block.mlp) + z
    torch.testing.assert_close(block(x), z, rtol=1e-10, atol=1e-10)


def test_layer_scale_multiplies_each_branch_by_its_own_factors(x: Tensor) -> None:
    block = layer(Block, scale=0.1)
    z = block.scale1.weight * msa(norm(x, block.norm1), block.attention) + x
    z = block.scale2.weight * mlp(norm(z, block.norm2), block.mlp) + z
    torch.testing.assert_close(block(x), z, rtol=1e-10, atol=1e-10)


def test_layer_scale_starts_where_it_is_told() -> None:
    attention = Attention(WIDTH, HEADS, "qkv", NoOffsets(), 0.0, 0.0)
    block = Block(attention, MLP(WIDTH, HIDDEN, "gelu", 0.0), EPSILON, 0.1, 0.0)
    for scale in (block.scale1, block.scale2):
        torch.testing.assert_close(scale.weight, torch.full((WIDTH,), 0.1))


def test_the_stream_norm_block_normalises_the_stream_itself(x: Tensor) -> None:
    block = layer(StreamNormBlock)
    z = norm(msa(norm(x, block.norm1), block.attention) + x, block.norm2)
    z = mlp(z, block.mlp) + z
    torch.testing.assert_close(block(x), z, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("kind", [Block, StreamNormBlock])
def test_the_weights_of_a_layer_are_those_of_its_normed_input(kind: type[Layer], x: Tensor) -> None:
    block = layer(kind)
    torch.testing.assert_close(block.weights(x), block.attention.weights(norm(x, block.norm1)))


def test_a_layer_is_abstract() -> None:
    with pytest.raises(TypeError, match="abstract"):
        Layer(Attention(WIDTH, HEADS, "qkv", NoOffsets(), 0.0, 0.0), MLP(WIDTH, 2, "gelu", 0.0), EPSILON, None, 0.0)
