"""Attention of short sequences: Gluon's on a Hopper, Triton's wherever that is not.

Gluon's words still change from release to release of Triton. So each kernel is tried before it is used: made, and asked
for what its plain twin knows too. What cannot be made, or is wrong, is said in the log and not used.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from types import ModuleType
from typing import Literal

import torch
from torch import Tensor

from patchwords.speed.kernels import short as plain
from patchwords.speed.kernels import short_triton
from patchwords.speed.kernels.short import LONELY, LONG, Attended, ShortGradients

logger = logging.getLogger("patchwords")

Work = Literal["forward", "forward in eight bits", "backward"]
HOPPER = (9, 0)
LEAST: dict[Work, int] = {
    "forward": 129,
    "forward in eight bits": 129,
    "backward": 64,
}  # tokens from which it is faster
PICTURES = 2  # of a trial
NEAR: dict[Work, float] = {  # that and what is right may be apart, by root mean squares: four times what rounding makes
    "forward": 0.01,
    "forward in eight bits": 0.04,
    "backward": 0.01,
}


def short(qkv: Tensor, heads: int) -> Attended:
    return _by("forward", qkv, heads).short(qkv, heads)


def short_eight(qkv: Tensor, heads: int, factors: Tensor) -> Tensor:
    return _by("forward in eight bits", qkv, heads).short_eight(qkv, heads, factors)


def short_backward(grad: Tensor, qkv: Tensor, out: Tensor, total: Tensor, heads: int) -> ShortGradients:
    return _by("backward", qkv, heads).short_backward(grad, qkv, out, total, heads)


def _by(work: Work, qkv: Tensor, heads: int) -> ModuleType:
    """Whose kernel does it."""
    if taken(work, qkv, heads) and trial(work, qkv.device, qkv.dtype, qkv.shape[1], heads).passed():
        return _gluon()
    return short_triton


def taken(work: Work, qkv: Tensor, heads: int) -> bool:
    """Whether a GPU has products that can be on their way, and enough to do for every part of it."""
    batch, tokens, across = qkv.shape
    return (
        qkv.is_cuda
        and qkv.dtype.itemsize == 2
        and LEAST[work] <= tokens <= LONG
        and batch * heads > LONELY
        and plain.taken(tokens, across // (3 * heads))
        and torch.cuda.get_device_capability(qkv.device) == HOPPER
    )


@dataclass
class Trial:
    """Of a kernel for sequences of so many tokens and heads."""

    work: Work
    device: torch.device
    dtype: torch.dtype
    tokens: int
    heads: int
    found: bool | None = field(default=None, init=False)

    def passed(self) -> bool:
        """Not while a graph is recorded, if there was no trial before."""
        if self.found is None:
            if self.device.type == "cuda" and torch.cuda.is_current_stream_capturing():
                return False
            self.found = not (objection := self._objection())
            if objection:
                said = "attention, %s: Triton's kernel is used and not Gluon's, which is faster: %s"
                logger.warning(said, self.work, objection)
        return self.found

    def _objection(self) -> str:
        try:
            worst = max(_apart(*pair) for pair in self._made_and_expected())
        except Exception as error:  # whatever a compiler of another release says
            return f"it cannot be made here ({type(error).__name__}: {_line(error)})"
        return "" if worst <= NEAR[self.work] else f"it is wrong by {worst:.1%}"

    def _made_and_expected(self) -> Iterator[tuple[Tensor, Tensor]]:
        numbers = torch.Generator(self.device).manual_seed(0)  # nobody else's are touched
        width = 64 * self.heads

        def drawn(across: int) -> Tensor:
            shape = (PICTURES, self.tokens, across)
            return torch.randn(shape, generator=numbers, device=self.device).to(self.dtype)

        qkv, grad = drawn(3 * width), drawn(width)
        attended = plain.short(qkv.double(), self.heads)
        if self.work == "forward":
            yield from zip(_gluon().short(qkv, self.heads), attended, strict=True)
        elif self.work == "forward in eight bits":
            factors = torch.linspace(1.0, 20.0, width, device=self.device)
            expected = plain.short_eight(qkv.double(), self.heads, factors.double())
            yield _gluon().short_eight(qkv, self.heads, factors), expected
        else:
            out = attended.out.to(self.dtype)
            wanted = plain.short_backward(grad.double(), qkv.double(), out.double(), attended.total, self.heads)
            found = _gluon().short_backward(grad, qkv, out, attended.total.float(), self.heads)
            yield from zip(found.qkv.chunk(3, -1), wanted.qkv.chunk(3, -1), strict=True)
            yield found.sums, wanted.sums


@lru_cache
def trial(work: Work, device: torch.device, dtype: torch.dtype, tokens: int, heads: int) -> Trial:
    return Trial(work, device, dtype, tokens, heads)


def _gluon() -> ModuleType:
    """Not before it is asked for: Triton may be there without it."""
    from patchwords.speed.kernels import short_gluon

    return short_gluon


def _apart(found: Tensor, expected: Tensor) -> float:
    """NaN is infinitely wrong."""
    found, expected = found.double(), expected.double()
    return ((found - expected).norm() / expected.norm()).nan_to_num(torch.inf).item()


def _line(error: Exception) -> str:
    """The last line of what it says, which tells the most."""
    return next((line.strip() for line in reversed(str(error).splitlines()) if line.strip()), "no words")
