"""The matrix products of a fused block, forward and back to their inputs: as its stream is kept, or in eight bits."""

from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from patchwords.speed.kernels.gelu import Form, GeluGradients
from patchwords.speed.kernels.norm import EightRows, Normed
from patchwords.speed.kernels.product import bias_of_q
from patchwords.speed.kernels.table import Kernels

Rows = Any  # as a product takes them; nobody else looks into them


class Products(Protocol):
    """Products with matrices, and what makes the rows for them in the pass that is made anyway."""

    def working(self, master: Tensor) -> Tensor:
        """A matrix as it is kept from the forward pass to the backward one."""

    def rows(self, x: Tensor) -> Rows:
        """Rows that no pass of this kind has made."""

    def norm(self, x: Tensor, weight: Tensor, bias: Tensor, epsilon: float) -> tuple[Normed, Rows]: ...

    def add_norm(
        self, x: Tensor, branch: Tensor, keep: Tensor | None, weight: Tensor, bias: Tensor, epsilon: float
    ) -> tuple[Normed, Rows]: ...

    def gelu(self, h: Tensor, bias: Tensor, form: Form) -> Rows: ...

    def gelu_backward(self, da: Tensor, h: Tensor, bias: Tensor, form: Form) -> tuple[GeluGradients, Rows]: ...

    def forward(self, x: Rows, matrix: Tensor, bias: Tensor | None) -> Tensor:
        """x matrixᵀ + bias."""

    def qkv(self, x: Rows, matrix: Tensor, bias: Tensor) -> Tensor:
        """The same to q, k and v side by side, where k and v lack their biases."""

    def backward(self, dy: Rows, matrix: Tensor, besides: Tensor | None = None) -> Tensor:
        """dy matrix: the gradient of x, and what it gets `besides`."""


@dataclass(frozen=True)
class Same:
    """In the precision of the stream."""

    kernels: Kernels
    dtype: torch.dtype

    def working(self, master: Tensor) -> Tensor:
        return master.detach().to(self.dtype)

    def rows(self, x: Tensor) -> Tensor:
        return x

    def norm(self, x: Tensor, weight: Tensor, bias: Tensor, epsilon: float) -> tuple[Normed, Tensor]:
        normed = self.kernels.norm(x, weight, bias, epsilon)
        return normed, normed.y

    def add_norm(
        self, x: Tensor, branch: Tensor, keep: Tensor | None, weight: Tensor, bias: Tensor, epsilon: float
    ) -> tuple[Normed, Tensor]:
        normed = self.kernels.add_norm(x, branch, keep, weight, bias, epsilon)
        return normed, normed.y

    def gelu(self, h: Tensor, bias: Tensor, form: Form) -> Tensor:
        return self.kernels.gelu(h, bias, form)

    def gelu_backward(self, da: Tensor, h: Tensor, bias: Tensor, form: Form) -> tuple[GeluGradients, Tensor]:
        gradients = self.kernels.gelu_backward(da, h, bias, form)
        return gradients, gradients.h

    def forward(self, x: Tensor, matrix: Tensor, bias: Tensor | None) -> Tensor:
        return self.kernels.product(x, matrix, bias)

    def qkv(self, x: Tensor, matrix: Tensor, bias: Tensor) -> Tensor:
        return self.kernels.product_qkv(x, matrix, bias)

    def backward(self, dy: Tensor, matrix: Tensor, besides: Tensor | None = None) -> Tensor:
        if besides is not None:
            return torch.addmm(besides, dy, matrix)
        return self.kernels.product_back(dy, matrix)


@dataclass(frozen=True)
class Eight:
    """In eight bits (e4m3), with a scale for each row of both sides; results are rows of the stream, in bf16.

    A matrix is rounded from its master for every product, and a second time, turned, for the gradient of its input:
    the scales of a product stand at the rows that it multiplies, and on the way back these are other ones.
    """

    kernels: Kernels

    def working(self, master: Tensor) -> Tensor:
        return master.detach()

    def rows(self, x: Tensor) -> EightRows:
        return self.kernels.eight(x)

    def norm(self, x: Tensor, weight: Tensor, bias: Tensor, epsilon: float) -> tuple[Normed, EightRows]:
        return self.kernels.norm_both(x, weight, bias, epsilon)

    def add_norm(
        self, x: Tensor, branch: Tensor, keep: Tensor | None, weight: Tensor, bias: Tensor, epsilon: float
    ) -> tuple[Normed, EightRows]:
        return self.kernels.add_norm_both(x, branch, keep, weight, bias, epsilon)

    def gelu(self, h: Tensor, bias: Tensor, form: Form) -> EightRows:
        return self.kernels.gelu_eight(h, bias, form)

    def gelu_backward(self, da: Tensor, h: Tensor, bias: Tensor, form: Form) -> tuple[GeluGradients, EightRows]:
        return self.kernels.gelu_backward_both(da, h, bias, form)

    def forward(self, x: EightRows, matrix: Tensor, bias: Tensor | None) -> Tensor:
        return self._product(x, self.kernels.eight(matrix), bias)

    def qkv(self, x: EightRows, matrix: Tensor, bias: Tensor) -> Tensor:
        return self._product(x, self.kernels.eight(matrix), bias_of_q(bias))

    def backward(self, dy: EightRows, matrix: Tensor, besides: Tensor | None = None) -> Tensor:
        dx = self._product(dy, self.kernels.eight_turned(matrix), None)
        return dx if besides is None else self.kernels.add(besides, dx, None)

    def _product(self, x: EightRows, matrix: EightRows, bias: Tensor | None) -> Tensor:
        return self.kernels.product_eight(*x, matrix.rows, matrix.scale.T, bias)
