"""Eq. 2 and 3 for training, forward and backward by hand: fewer passes over the memory, and fewer activations kept.

Kept are the block's input, both norms' outputs, qkv, attention's output, the stream between eq. 2 and 3, and the MLP's
hidden layer before its bias and GELU, which are made again on the way back by the kernel that finds the slope: twelve
times the stream. Without the norms' outputs it is ten times, without the hidden layer six: `again` says what is made
again, from what it was made of before. Weights are masters in single precision: the matrices work with rounded copies,
and their gradients come out unrounded. In which numbers the products are made is a part of its own (`products`), but
for those that sum over rows, the gradients of matrices: in eight bits both sides would be rounded again, with scales
along the other axis.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from patchwords.layers.attention import Attention
from patchwords.layers.mlp import MLP
from patchwords.layers.residual import StochasticDepth
from patchwords.speed.fused.attend import Attend
from patchwords.speed.fused.products import Products, Rows
from patchwords.speed.kernels.gelu import Form
from patchwords.speed.kernels.norm import Normed
from patchwords.speed.kernels.table import Kernels
from patchwords.speed.recompute import Again

Second = Literal["branch", "stream"]  # where the second norm stands: the paper's block, or the Compact Transformers'


@dataclass(frozen=True)
class How:
    """What a block is made with: kernels, the precision of its stream, its products, and its own numbers.

    On the way back it makes its norms `again`, or its norms and its hidden layer, instead of keeping them.
    """

    kernels: Kernels
    dtype: torch.dtype
    products: Products
    epsilon: float
    form: Form
    second: Second = "branch"
    again: Again | None = None


class Learned(NamedTuple):
    """A block's parameters, or their gradients."""

    norm1: Any
    shift1: Any
    norm2: Any
    shift2: Any
    qkv: Any
    qkv_bias: Any
    out: Any
    out_bias: Any
    fc1: Any
    fc1_bias: Any
    fc2: Any
    fc2_bias: Any


Keeps = tuple[Tensor | None, Tensor | None]  # what stochastic depth leaves of the branches of eq. 2 and 3
Waiting = tuple[Tensor, Tensor | None, Tensor, Tensor]  # what is kept of a norm: its output may be missing


class Open(NamedTuple):
    """Rows whose last sum is not made yet: a stream, the branch to be added, what stochastic depth leaves of that.

    Who reads them makes the sum, in the pass that normalises it. The gradient of the sum arrives at the stream alone:
    the block that made the branch works out its share.
    """

    stream: Tensor
    branch: Tensor | None = None
    keep: Tensor | None = None


class _Block(torch.autograd.Function):
    """Rows (rows, width), of sequences or maps of a `shape`, to rows of the same: summed, or stream and branch."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, branch: Tensor | None, left: Tensor | None, how: How, attend: Attend, shape: torch.Size,
        keeps: Keeps, summed: bool, *parameters: Any,
    ) -> Any:  # fmt: skip
        products, count = how.products, len(Learned._fields)
        p, biases = working(Learned(*parameters[:count]), how), parameters[count:]
        first, y = begun(Open(x, branch, left), products, p, how)
        late = _late(p, attend)
        qkv = products.forward(y, p.qkv, p.qkv_bias) if late is None else products.qkv(y, p.qkv, p.qkv_bias)
        qkv = qkv.view(*shape[:-1], -1)
        out, kept = attend.forward(qkv, *biases)
        out = out.reshape(x.shape)
        # No name here for what is not kept: it would keep its memory until the end.
        end = ended(first.total, products.forward(products.rows(out), p.out, _with(p, late)), keeps, p, how)
        ctx.how, ctx.attend, ctx.shape, ctx.keeps, ctx.kept = how, attend, shape, keeps, len(kept)
        ctx.save_for_backward(*waiting(first, how), qkv, out, *waiting(end.second, how), end.h, *p, *kept, *biases)
        if summed:
            return how.kernels.add(*end.rows)
        ctx.mark_non_differentiable(end.rows.branch)
        ctx.set_materialize_grads(False)
        return end.rows.stream, end.rows.branch

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, *_: None) -> tuple[Any, ...]:
        how, products = ctx.how, ctx.how.products
        x, y1, mean1, inverse1, qkv, out, total, y2, mean2, inverse2, h, *rest = ctx.saved_tensors
        p, rest = Learned(*rest[: len(Learned._fields)]), rest[len(Learned._fields) :]
        kept, biases = tuple(rest[: ctx.kept]), rest[ctx.kept :]
        end = ended_back(grad.contiguous(), (total, y2, mean2, inverse2), h, ctx.keeps, p, how)
        dout = products.backward(products.rows(end.branch), p.out).view(*ctx.shape[:-1], -1)
        back = ctx.attend.backward(dout, qkv, out.view(dout.shape), kept, *biases)
        dqkv = back.qkv.reshape(x.shape[0], -1)
        normed = woken((x, y1, mean1, inverse1), p.norm1, p.shift1, how)
        first = how.kernels.norm_backward(products.backward(products.rows(dqkv), p.qkv), normed, p.norm1, end.x)
        by_out, late = how.kernels.product_sums(end.branch, out), _late(p, ctx.attend)
        if late is not None:
            by_out.addr_(end.learned["out_bias"], late.to(by_out.dtype))
        found = Learned(
            norm1=first.weight,
            shift1=first.bias,
            qkv=how.kernels.product_sums(dqkv, normed.y),
            qkv_bias=None if p.qkv_bias is None else back.sums,
            out=by_out,
            **end.learned,
        )
        return first.x, None, None, None, None, None, None, None, *found, *back.learned


class EndGradients(NamedTuple):
    """Of the stream before eq. 2's sum, of the branch that it adds, and of what was learned from there on."""

    x: Tensor
    branch: Tensor
    learned: dict[str, Tensor]


def waiting(normed: Normed, how: How) -> Waiting:
    """What of a norm is kept for the way back."""
    total, y, mean, inverse = normed
    return total, None if how.again else y, mean, inverse


def woken(kept: Waiting, weight: Tensor, shift: Tensor, how: How) -> Normed:
    """A norm on the way back, made again where its output was not kept."""
    total, y, mean, inverse = kept
    return how.kernels.norm(total, weight, shift, how.epsilon) if y is None else Normed(total, y, mean, inverse)


def begun(rows: Open, products: Products, p: Learned, how: How) -> tuple[Normed, Rows]:
    """The sum that was left open, and the first norm."""
    if rows.branch is None:
        return products.norm(rows.stream, p.norm1, p.shift1, how.epsilon)
    return products.add_norm(rows.stream, rows.branch, rows.keep, p.norm1, p.shift1, how.epsilon)


class End(NamedTuple):
    """The rows behind a block; for the way back its second norm, and the hidden layer if that is kept."""

    rows: Open
    second: Normed
    h: Tensor | None


def ended(x: Tensor, branch: Tensor, keeps: Keeps, p: Learned, how: How) -> End:
    """From the sum of eq. 2 up to that of eq. 3."""
    products = how.products
    second, y = products.add_norm(x, branch, keeps[0], p.norm2, p.shift2, how.epsilon)  # eq. 2
    h = products.forward(y, p.fc1, None)
    branch = products.forward(products.gelu(h, p.fc1_bias, how.form), p.fc2, p.fc2_bias)
    stream = second.total if how.second == "branch" else second.y
    return End(Open(stream, branch, keeps[1]), second, None if how.again == "hidden" else h)


def ended_back(grad: Tensor, kept: Waiting, h: Tensor | None, keeps: Keeps, p: Learned, how: How) -> EndGradients:
    k, products, (keep1, keep2) = how.kernels, how.products, keeps
    if h is None:
        second, y = products.norm(kept[0], p.norm2, p.shift2, how.epsilon)
        h = products.forward(y, p.fc1, None)
    else:
        second = woken(kept, p.norm2, p.shift2, how)
    last = _part(grad, keep2)
    mlp, dh = products.gelu_backward(products.backward(products.rows(last), p.fc2), h, p.fc1_bias, how.form)
    if how.second == "branch":
        middle = k.between_backward(products.backward(dh, p.fc1), second, p.norm2, grad, keep1, keep2)
        ending = middle.skipped
    else:
        middle = k.between_backward(products.backward(dh, p.fc1, grad), second, p.norm2, None, keep1, None)
        ending = last.sum(0, dtype=torch.promote_types(last.dtype, torch.float32))
    learned = {
        "norm2": middle.weight,
        "shift2": middle.bias,
        "out_bias": middle.branched,
        "fc1": k.product_sums(mlp.h, second.y),
        "fc1_bias": mlp.bias,
        "fc2": k.product_sums(last, mlp.a),
        "fc2_bias": ending,
    }
    return EndGradients(middle.x, _part(middle.x, keep1), learned)


_made: Callable[..., Any] = _Block.apply


@dataclass(frozen=True)
class FusedBlock:
    """The forward of a block of these parts on (batch, …, width)."""

    norms: tuple[nn.LayerNorm, nn.LayerNorm]
    attention: Attention
    mlp: MLP
    drop: StochasticDepth
    attend: Attend
    how: How

    def __call__(self, x: Tensor, *biases: Tensor) -> Tensor:
        """With what attention adds to its logits."""
        keeps = keep(self.drop, x), keep(self.drop, x)
        return self._rows(Open(x.to(self.how.dtype).contiguous()), keeps, True, *biases).view(x.shape)

    def after(self, rows: Open) -> Open:
        """Between sums that are left open."""
        x = rows.stream
        keeps = keep(self.drop, x), keep(self.drop, x)
        stream, branch = self._rows(rows._replace(stream=x.to(self.how.dtype).contiguous()), keeps, False)
        return Open(stream.view(x.shape), branch.view(x.shape), keeps[1])

    def _rows(self, rows: Open, keeps: Keeps, summed: bool, *biases: Tensor) -> Any:
        learned = parameters(self.norms, self.attention, self.mlp)
        with torch.autocast(rows.stream.device.type, enabled=False):
            return _made(*flat(rows), self.how, self.attend, rows.stream.shape, keeps, summed, *learned, *biases)


def flat(rows: Open) -> Open:
    """As (rows, width)."""
    width = rows.stream.shape[-1]
    branch = None if rows.branch is None else rows.branch.view(-1, width)
    return Open(rows.stream.reshape(-1, width), branch, rows.keep)


def parameters(norms: tuple[nn.LayerNorm, nn.LayerNorm], attention: Attention, mlp: MLP) -> Learned:
    """Those of a block that are learned, or are to be."""
    qkv = attention.qkv
    assert isinstance(qkv, nn.Linear)
    layers = (*norms, qkv, attention.out, mlp.fc1, mlp.fc2)  # in the order of `Learned`
    return Learned(*(each for layer in layers for each in (layer.weight, layer.bias)))


def keep(drop: StochasticDepth, x: Tensor) -> Tensor | None:
    """What stochastic depth leaves of each picture's branch, drawn as its module does."""
    if not drop.training or drop.rate == 0.0:
        return None
    kept = torch.rand(x.shape[0], *[1] * (x.dim() - 1), device=x.device) >= drop.rate
    return (kept / (1 - drop.rate)).flatten()


def working(learned: Learned, how: How) -> Learned:
    """The matrices and their biases as they work; the norms' values as they are."""
    matrices = {name: how.products.working(getattr(learned, name)) for name in ("qkv", "out", "fc1", "fc2")}
    biases = {
        name: value.detach().to(how.dtype)
        for name, value in learned._asdict().items()
        if name.endswith("_bias") and value is not None
    }
    return learned._replace(**matrices, **biases)


def _late(p: Learned, attend: Attend) -> Tensor | None:
    """The bias of v where it is added behind attention; that of k is added nowhere, since softmax does not see it."""
    return p.qkv_bias.chunk(3)[2] if attend.lacking and p.qkv_bias is not None else None


def _with(p: Learned, late: Tensor | None) -> Tensor:
    """The bias of eq. 8's matrix, and what the matrix makes of that of v."""
    if late is None:
        return p.out_bias
    kind = p.out.dtype
    return torch.addmv(p.out_bias.to(kind), p.out, late.to(kind)).to(p.out_bias.dtype)


def _part(rows: Tensor, kept: Tensor | None) -> Tensor:
    """What of a gradient goes to a branch."""
    if kept is None:
        return rows
    part = torch.empty_like(rows)
    torch.mul(rows.view(kept.shape[0], -1), kept[:, None], out=part.view(kept.shape[0], -1))
    return part
