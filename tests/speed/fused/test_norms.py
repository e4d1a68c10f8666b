"""A fused layer norm computes what torch's does, forward and backward."""

import torch
from torch import nn

from patchwords.speed.fused.norms import fused_norm
from patchwords.speed.kernels import table


def test_values_and_gradients_are_those_of_torch() -> None:
    norm = nn.LayerNorm(24, eps=1e-3).double()
    nn.init.normal_(norm.weight)
    nn.init.normal_(norm.bias)
    x = torch.randn(2, 3, 5, 24, dtype=torch.float64).transpose(1, 2).requires_grad_()
    weight = torch.randn(2, 5, 3, 24, dtype=torch.float64)
    sources = (x, norm.weight, norm.bias)
    expected = norm(x)
    found = fused_norm(norm, table.plain(), torch.float64)(x)
    torch.testing.assert_close(found, expected)
    for ours, theirs in zip(
        torch.autograd.grad((found * weight).sum(), sources),
        torch.autograd.grad((expected * weight).sum(), sources),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs)


def test_rows_come_out_in_the_precision_asked_for() -> None:
    norm = nn.LayerNorm(8)
    y = fused_norm(norm, table.plain(), torch.bfloat16)(torch.randn(4, 8))
    assert y.dtype == torch.bfloat16
    y.float().sum().backward()
    assert norm.weight.grad is not None
    assert norm.weight.grad.dtype == torch.float32
