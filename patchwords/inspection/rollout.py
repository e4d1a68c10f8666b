"""Section 4.5, Figure 6, and App. D.8: attention rollout (Abnar & Zuidema, 2020), from the pixels to the output.

The weights are averaged over the heads, the identity is added for the residual path, the rows are normalised, and the
layers are multiplied, last · … · first.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from patchwords.layers.look import Gaze, Look
from patchwords.models.model import Model


def rollout(maps: Sequence[Tensor]) -> Tensor:
    """The definition, of every layer's weights (batch, tokens, tokens), averaged over the heads: as large as one."""
    identity = torch.eye(maps[0].shape[-1], dtype=maps[0].dtype, device=maps[0].device)
    product = identity.expand_as(maps[0])
    for weights in maps:
        mixed = weights + identity
        product = mixed / mixed.sum(-1, keepdim=True) @ product
    return product


@torch.no_grad()
def follow(gaze: Gaze) -> Tensor:
    """What the output reads of it: (batch, tokens), each row with the sum one.

    From the last layer to the first, a vector is all that is kept; `reads · rollout(maps)` is the plain twin.
    """
    reads = gaze.reads.to(torch.promote_types(gaze.reads.dtype, torch.float32))
    shares = reads / reads.sum(1, keepdim=True)
    for look in reversed(gaze.looks):
        shares = (shares + _through(look, shares)) / 2  # rows of A sum to one, so those of A + I to two
    return shares


def _through(look: Look, shares: Tensor) -> Tensor:
    """The shares (batch, tokens) before a layer's attention, from those behind it: shares · A."""
    seen = torch.zeros_like(shares)
    for _, rows, weights in look.pieces():
        seen += (shares[:, rows, None] * weights.sum(1)).sum(1)  # no product of matrices, which autocast would round
    return seen / look.heads


@torch.no_grad()
def attention_map(model: Model, images: Tensor) -> Tensor:
    """How much of the output comes from each patch: (batch, rows, cols); what special tokens have of it is left out."""
    gaze = model.gaze(images)
    tokens = gaze.looks[0].tokens
    return follow(gaze)[:, tokens.prefix :].unflatten(1, tokens.grid)
