"""Appendix A, eq. 6-7: the one door to every attention backend, and the weights themselves for inspection."""

import torch
from torch import Tensor
from torch.nn import functional as F


def attention(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None = None, dropout: float = 0.0) -> Tensor:
    """softmax(q kᵀ / √Dh + bias) v, for q, k, v of (batch, heads, tokens, width / heads); no weights are kept.

    More axes may stand between batch and heads; the kernels know one, so they are folded into it.
    """
    mask = None if bias is None else bias.flatten(0, -4)
    x = F.scaled_dot_product_attention(q.flatten(0, -4), k.flatten(0, -4), v.flatten(0, -4), mask, dropout)
    return x.unflatten(0, q.shape[:-3])


def weights(q: Tensor, k: Tensor, bias: Tensor | None = None) -> Tensor:
    """The weights A of eq. 6 as (batch, …, heads, queries, keys): what the fused kernels never write down.

    In single precision at least, so that rows sum to one.
    """
    logits = q @ k.mT * q.shape[-1] ** -0.5
    logits = logits if bias is None else logits + bias
    return logits.softmax(-1, dtype=torch.promote_types(logits.dtype, torch.float32))
