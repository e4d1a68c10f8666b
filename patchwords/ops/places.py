"""Rows of a sequence by their places, others for every sample of a batch: how patches are hidden and found again."""

from torch import Tensor


def take(x: Tensor, places: Tensor) -> Tensor:
    """The rows of x (batch, patches, width) at these places (batch, count): (batch, count, width)."""
    return x.gather(1, _spread(places, x))


def put(x: Tensor, places: Tensor, rows: Tensor) -> Tensor:
    """x (batch, patches, width) with other rows at these places (batch, count); `rows` broadcasts to them."""
    index = _spread(places, x)
    return x.scatter(1, index, rows.expand(index.shape))


def _spread(places: Tensor, like: Tensor) -> Tensor:
    """Places (batch, count) for every channel of `like`."""
    return places[:, :, None].expand(-1, -1, like.shape[2])
