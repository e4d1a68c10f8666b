"""App. D.4: relative positions, as what a query says to the offset of a key."""

import torch
from torch import Tensor, nn

from patchwords.errors import UsageError


class Offsets(nn.Module):
    """App. D.4, relative: "extra attention" of the query to the offset's embedding, added to the logits.

    Offsets are of the raster index, the special tokens counted in; one table a layer, the same for all heads.
    """

    def __init__(self, tokens: int, head_width: int, std: float):
        super().__init__()
        self.tokens = tokens
        self.table = nn.Parameter(torch.empty(2 * tokens - 1, head_width))
        nn.init.normal_(self.table, std=std)

    def forward(self, q: Tensor, heads: slice = slice(None), rows: slice = slice(None)) -> Tensor:
        """What is added to the logits of these heads for the queries of these rows: (…, heads, rows, keys)."""
        if q.shape[-2] != self.tokens:
            raise UsageError(f"{q.shape[-2]} tokens came, the offsets know {self.tokens}: adapt the model to this size")
        place = torch.arange(self.tokens, device=q.device)
        offset = place[rows, None] - place[None, :] + self.tokens - 1  # (rows, keys), from 0
        logits = q[..., heads, rows, :] @ self.table.mT * q.shape[-1] ** -0.5  # (…, heads, rows, offsets)
        return logits.gather(-1, offset.expand(*logits.shape[:-2], -1, -1))
