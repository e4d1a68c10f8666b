"""Eq. 4 and App. D.3: the sequence becomes one vector y, or two in DeiT."""

import abc
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from patchwords.layers.initialise import dense, xavier_uniform_
from patchwords.layers.mlp import MLP, Activation
from patchwords.layers.tokens import Tokens
from patchwords.ops.attention import attention, weights
from patchwords.settings import check


@dataclass(frozen=True, kw_only=True, slots=True)
class ClassToken:
    """Eq. 4: y = LN(z_L⁰)."""

    kind: ClassVar[str] = "class"
    norm: ClassVar[str] = "before"

    def build(self, width: int, heads: int, mlp: int, activation: Activation, epsilon: float) -> "Pooling":
        return TakeClass()


@dataclass(frozen=True, kw_only=True, slots=True)
class Mean:
    """Global average of the patches; the final norm stands before the average (the paper) or after it (MAE, timm)."""

    kind: ClassVar[str] = "mean"
    norm: Literal["before", "after"] = "before"

    def __post_init__(self) -> None:
        check(self)

    def build(self, width: int, heads: int, mlp: int, activation: Activation, epsilon: float) -> "Pooling":
        return MeanPatches(nn.Identity() if self.norm == "before" else nn.LayerNorm(width, eps=epsilon))


@dataclass(frozen=True, kw_only=True, slots=True)
class Attend:
    """MAP, the attention pool of the scaled-up ViTs: a learned probe asks all tokens, or the patches alone (timm)."""

    kind: ClassVar[str] = "map"
    norm: ClassVar[str] = "before"
    over: Literal["tokens", "patches"] = "tokens"

    def __post_init__(self) -> None:
        check(self)

    def build(self, width: int, heads: int, mlp: int, activation: Activation, epsilon: float) -> "Pooling":
        return AttendTokens(width, heads, MLP(width, mlp, activation, dropout=0.0), epsilon, self.over)


@dataclass(frozen=True, kw_only=True, slots=True)
class BothTokens:
    """DeiT: the class and the distillation token, each for a classifier of its own."""

    kind: ClassVar[str] = "distilled"
    norm: ClassVar[str] = "before"

    def build(self, width: int, heads: int, mlp: int, activation: Activation, epsilon: float) -> "Pooling":
        return TakeBoth()


Pool = ClassToken | Mean | Attend | BothTokens


class Pooling(nn.Module, abc.ABC):
    """Tokens to the vector that the head sees; `reads` says how much of it comes from each token.

    `front` is how many of the first tokens it looks at, None for all: the last layer need not make the others.
    """

    front: int | None = None

    @abc.abstractmethod
    def forward(self, tokens: Tokens) -> Tensor: ...

    @abc.abstractmethod
    def reads(self, tokens: Tokens) -> Tensor:
        """(batch, tokens), each row with the sum one."""


class TakeClass(Pooling):
    front = 1

    def forward(self, tokens: Tokens) -> Tensor:
        return tokens.special[:, 0]

    def reads(self, tokens: Tokens) -> Tensor:
        shares = tokens.x.new_zeros(tokens.x.shape[:2])
        shares[:, 0] = 1
        return shares


class TakeBoth(Pooling):
    front = 2

    def forward(self, tokens: Tokens) -> Tensor:
        return tokens.special[:, :2]  # (batch, 2, width)

    def reads(self, tokens: Tokens) -> Tensor:
        shares = tokens.x.new_zeros(tokens.x.shape[:2])
        shares[:, :2] = 0.5
        return shares


class MeanPatches(Pooling):
    def __init__(self, norm: nn.Module):
        super().__init__()
        self.norm = norm

    def forward(self, tokens: Tokens) -> Tensor:
        return self.norm(tokens.patches.mean(1))

    def reads(self, tokens: Tokens) -> Tensor:
        shares = tokens.x.new_zeros(tokens.x.shape[:2])
        shares[:, tokens.prefix :] = 1 / tokens.patches.shape[1]
        return shares


class AttendTokens(Pooling):
    def __init__(self, width: int, heads: int, mlp: MLP, epsilon: float, over: Literal["tokens", "patches"]):
        super().__init__()
        self.heads, self.over = heads, over
        self.probe = nn.Parameter(torch.empty(1, 1, width))
        xavier_uniform_(self.probe[0])
        self.q = dense(width, width)
        self.kv = dense(width, 2 * width, parts=2)
        self.out = dense(width, width)
        self.norm2 = nn.LayerNorm(width, eps=epsilon)
        self.mlp = mlp

    def split(self, tokens: Tokens) -> tuple[Tensor, Tensor, Tensor]:
        """The probe's query, and keys and values of the tokens that it asks: (batch, heads, …, width / heads)."""
        asked = tokens.x if self.over == "tokens" else tokens.patches
        probe = self.probe.expand(asked.shape[0], -1, -1)
        q = self.q(probe).unflatten(2, (self.heads, -1)).transpose(1, 2)  # (batch, heads, 1, width / heads)
        k, v = self.kv(asked).unflatten(2, (2, self.heads, -1)).permute(2, 0, 3, 1, 4).unbind(0)
        return q, k, v

    def forward(self, tokens: Tokens) -> Tensor:
        x = self.out(attention(*self.split(tokens)).transpose(1, 2).flatten(2))[:, 0]  # (batch, width)
        return x + self.mlp(self.norm2(x))

    def reads(self, tokens: Tokens) -> Tensor:
        q, k, _ = self.split(tokens)
        shares = weights(q, k).mean(1)[:, 0]  # of the tokens that were asked
        return nn.functional.pad(shares, (tokens.x.shape[1] - shares.shape[1], 0))
