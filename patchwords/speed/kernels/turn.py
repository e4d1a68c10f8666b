"""A matrix lying the other way round: the plain twin of `turn_triton`."""

from torch import Tensor


def turned(matrix: Tensor) -> Tensor:
    """(rows, width) as (width, rows), in memory too."""
    return matrix.T.contiguous()
