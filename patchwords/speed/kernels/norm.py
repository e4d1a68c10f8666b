"""Layer norm with the residual sum before it, forward and backward: the plain twins of `norm_triton`.

Rows are (rows, width); sums, means and deviations are made in single precision at least, whatever the rows are kept in.
`keep` is what stochastic depth leaves of each picture's branch, (batch), for rows that are the tokens of one picture
after the other; None is all of it.
"""

from typing import NamedTuple

import torch
from torch import Tensor

LARGEST = 448.0  # of the numbers of eight bits, e4m3
LEAST = 1e-30  # that a row's largest number is taken for: gradients are small, and the inverse of a scale is finite


class Normed(NamedTuple):
    """The rows that were summed, and normalised; each row's mean and the inverse of its deviation."""

    total: Tensor
    y: Tensor
    mean: Tensor
    inverse: Tensor


class EightRows(NamedTuple):
    """Rows in eight bits (e4m3), and the scale (rows, 1) that they are to be multiplied with."""

    rows: Tensor
    scale: Tensor


class NormGradients(NamedTuple):
    """Of the rows, of scale and shift."""

    x: Tensor
    weight: Tensor
    bias: Tensor


class BetweenGradients(NamedTuple):
    """Those of a norm between two branches, and two sums over rows.

    `skipped` sums what came over the skip connection times `keep_after`, `branched` what goes to the branch: the
    gradients of the biases of the matrices that end the branch after the norm and the branch before it.
    """

    x: Tensor
    weight: Tensor
    bias: Tensor
    skipped: Tensor
    branched: Tensor


def norm(x: Tensor, weight: Tensor, bias: Tensor, epsilon: float, shift: Tensor | None = None) -> Normed:
    """LN(x + shift); `total` is x as it was given, without the shift (width), which is only thought to be in it."""
    rows = single(x) if shift is None else single(x) + shift
    y, mean, inverse = _normalised(rows, weight, bias, epsilon)
    return Normed(x, y.to(x.dtype), mean, inverse)


def add_norm(x: Tensor, branch: Tensor, keep: Tensor | None, weight: Tensor, bias: Tensor, epsilon: float) -> Normed:
    """LN(x + keep · branch), and the sum."""
    total = add(x, branch, keep)
    y, mean, inverse = _normalised(single(total), weight, bias, epsilon)
    return Normed(total, y.to(x.dtype), mean, inverse)


def norm_both(x: Tensor, weight: Tensor, bias: Tensor, epsilon: float) -> tuple[Normed, EightRows]:
    """As `norm`, and y in eight bits besides, with a scale for each row."""
    y, mean, inverse = _normalised(single(x), weight, bias, epsilon)
    return Normed(x, y.to(x.dtype), mean, inverse), rounded(y)


def add_norm_both(
    x: Tensor, branch: Tensor, keep: Tensor | None, weight: Tensor, bias: Tensor, epsilon: float
) -> tuple[Normed, EightRows]:
    """As `add_norm`, and y in eight bits besides."""
    return norm_both(add(x, branch, keep), weight, bias, epsilon)


def add(x: Tensor, branch: Tensor, keep: Tensor | None) -> Tensor:
    """x + keep · branch."""
    return (single(x) + kept(branch, keep)).to(x.dtype)


def norm_backward(dy: Tensor, normed: Normed, weight: Tensor, skip: Tensor | None) -> NormGradients:
    """The gradient of rows that went both through a norm and past it: `dy` came through, `skip`, if any, past."""
    skip = torch.zeros_like(dy) if skip is None else skip
    hat = (single(normed.total) - normed.mean[:, None]) * normed.inverse[:, None]
    scaled = single(dy) * weight
    middle, slope = scaled.mean(1, keepdim=True), (scaled * hat).mean(1, keepdim=True)
    dx = (single(skip) + (scaled - middle - hat * slope) * normed.inverse[:, None]).to(dy.dtype)
    return NormGradients(dx, (single(dy) * hat).sum(0), single(dy).sum(0))


def between_backward(
    dy: Tensor,
    normed: Normed,
    weight: Tensor,
    skip: Tensor | None,
    keep_before: Tensor | None,
    keep_after: Tensor | None,
) -> BetweenGradients:
    """The same, where one branch ends before the norm and the next begins with it."""
    found = norm_backward(dy, normed, weight, skip)
    past = torch.zeros_like(dy) if skip is None else skip
    return BetweenGradients(*found, kept(past, keep_after).sum(0), kept(found.x, keep_before).sum(0))


def norm_eight(
    x: Tensor, branch: Tensor | None, shift: Tensor, weight: Tensor, bias: Tensor, epsilon: float
) -> EightRows:
    """LN(x + branch + shift) in eight bits, with a scale for each row; the branch is added to x in place."""
    if branch is not None:
        x.copy_(add(x, branch, None))
    y, _, _ = _normalised(single(x) + shift, weight, bias, epsilon)
    return rounded(y)


def rounded(x: Tensor) -> EightRows:
    """Each row by its largest number, which becomes the largest that there is."""
    scale = single(x).abs().amax(1, keepdim=True).clamp(min=LEAST) / LARGEST
    return EightRows((single(x) / scale).to(torch.float8_e4m3fn), scale.float())


def single(x: Tensor) -> Tensor:
    """In single precision, or in double where it is that already."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def kept(rows: Tensor, keep: Tensor | None) -> Tensor:
    """Rows times what is kept of their picture, in single precision at least."""
    if keep is None:
        return single(rows)
    return single(rows) * keep.repeat_interleave(rows.shape[0] // keep.shape[0])[:, None]


def _normalised(rows: Tensor, weight: Tensor, bias: Tensor, epsilon: float) -> tuple[Tensor, Tensor, Tensor]:
    mean = rows.mean(1)
    inverse = (rows.var(1, correction=0) + epsilon).rsqrt()
    return (rows - mean[:, None]) * inverse[:, None] * weight + bias, mean, inverse
