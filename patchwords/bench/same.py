"""Whether two compute the same: checked before anything is timed, and refused if not."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from patchwords.errors import ModelError

CHECKED = 8  # pictures
# How far logits may lie from those in float32, as a share of their size; half precision's own noise and room for more.
NEAR = {"float32": 1e-3, "bf16": 0.06, "fp16": 0.02, "fp8": 0.3, "int8": 0.3}


def difference(found: Tensor, wanted: Tensor) -> float:
    """The root of the mean square of the difference, over that of the logits."""
    wanted = wanted.double()
    return float((found.double() - wanted).pow(2).mean().sqrt() / wanted.pow(2).mean().sqrt())


def expect_same(name: str, found: Tensor, wanted: Tensor, precision: str) -> float:
    """How far they are apart; too far is refused."""
    if found.shape != wanted.shape:
        raise ModelError(f"{name} gives {list(found.shape)}, the model {list(wanted.shape)}: nothing is measured")
    if not wanted.any():
        raise ModelError("the model's logits are all zero, and zeros agree with everything: give one that was trained")
    apart = difference(found, wanted)
    if not apart <= NEAR[precision]:
        raise ModelError(
            f"{name} in {precision} computes other logits than the model in float32 (apart by {apart:.1e} of their "
            f"size, {NEAR[precision]} is allowed): a comparison would mean nothing"
        )
    return apart


def logits(function: Callable[[Tensor], Tensor], images: Tensor) -> Tensor:
    with torch.inference_mode():
        return function(images).float()


@contextmanager
def exact() -> Iterator[None]:
    """Products in float32 as such, not in a shorter kind that a GPU may use for them."""
    before = torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    try:
        yield
    finally:
        torch.backends.cudnn.allow_tf32, torch.backends.cuda.matmul.allow_tf32 = before
