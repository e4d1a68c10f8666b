"""The last layer of a ViT that is read at its first tokens alone, for training: only they ask and have an MLP.

The logits are those of the whole layer; a sixth of its products is left.
"""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from patchwords.layers.block import Block
from patchwords.ops.attention import attention
from patchwords.speed.fused.attend import apart, joined


def last(block: Block, front: int, dtype: torch.dtype) -> Callable[[Tensor], Tensor]:
    """The forward from (batch, tokens, width) to (batch, front, width)."""

    def forward(x: Tensor) -> Tensor:
        with torch.autocast(x.device.type, enabled=False):
            x = x.to(dtype)
            x = _stream(x, front, block.drop(_attended(block, x, front)))  # eq. 2
            return x + block.drop(_mlp(block, x))  # eq. 3

    return forward


def _stream(x: Tensor, front: int, branch: Tensor) -> Tensor:
    return x[:, :front] + branch


def _attended(block: Block, x: Tensor, front: int) -> Tensor:
    width, heads, qkv = x.shape[2], block.attention.heads, block.attention.qkv
    assert isinstance(qkv, torch.nn.Linear)
    y = _normed(x, block.norm1)
    weight, bias = qkv.weight.to(x.dtype), None if qkv.bias is None else qkv.bias.to(x.dtype)
    q = F.linear(y[:, :front], weight[:width], None if bias is None else bias[:width])
    k, v = F.linear(y, weight[width:], None if bias is None else bias[width:]).chunk(2, -1)
    out = joined(attention(apart(q, heads), apart(k, heads), apart(v, heads)))
    return _linear(out, block.attention.out)


def _mlp(block: Block, x: Tensor) -> Tensor:
    mlp = block.mlp
    return _linear(mlp.activation(_linear(_normed(x, block.norm2), mlp.fc1)), mlp.fc2)


def _normed(x: Tensor, norm: torch.nn.LayerNorm) -> Tensor:
    weight, bias = norm.weight.to(x.dtype), norm.bias.to(x.dtype)
    return F.layer_norm(x, norm.normalized_shape, weight, bias, norm.eps)


def _linear(x: Tensor, layer: torch.nn.Linear) -> Tensor:
    return F.linear(x, layer.weight.to(x.dtype), layer.bias.to(x.dtype))
