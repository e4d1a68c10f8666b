"""Attention of a few queries of each picture to all its tokens, forward and backward: the plain twins of `few_triton`.

q is (batch, queries, width); k and v lie side by side, (batch, tokens, 2 · width), as one matrix has made them. `total`
is the logarithm of the sum that softmax divides by, (batch, heads, queries).
"""

from typing import NamedTuple

from torch import Tensor, cat

from patchwords.speed.kernels.norm import single
from patchwords.speed.kernels.short import Attended, apart, joined, scaled


class FewGradients(NamedTuple):
    """Of q, and of k and v."""

    q: Tensor
    kv: Tensor


def few(q: Tensor, kv: Tensor, heads: int) -> Attended:
    (asks,), (k, v) = apart(q, 1, heads), apart(kv, 2, heads)
    logits = scaled(asks, k)
    return Attended(joined(logits.softmax(-1).to(v.dtype) @ v), logits.logsumexp(-1))


def few_backward(grad: Tensor, q: Tensor, kv: Tensor, out: Tensor, total: Tensor, heads: int) -> FewGradients:
    """From the gradient of the output, and what the forward has given."""
    (asks,), (k, v) = apart(q, 1, heads), apart(kv, 2, heads)
    (dx,), (x,) = apart(grad, 1, heads), apart(out, 1, heads)
    a = (scaled(asks, k) - total[..., None]).exp()
    da = single(dx) @ single(v).mT
    logits = a * (da - (single(x) * single(dx)).sum(-1, keepdim=True)) * asks.shape[-1] ** -0.5
    dkv = cat([joined((each.mT @ single(by)).to(kv.dtype)) for each, by in ((logits, asks), (a, dx))], -1)
    return FewGradients(joined((logits @ single(k)).to(q.dtype)), dkv)
