"""Section 3.1: one linear layer to fine-tune, a hidden layer with tanh to pre-train, or no head at all."""

import pytest
import torch
from torch import nn

from patchwords.layers.head import Head, Linear, TanhMLP


def filled(head: Head) -> Head:
    for parameter in head.parameters():
        nn.init.normal_(parameter)
    return head.double()


def test_a_linear_head_is_one_layer() -> None:
    head = filled(Linear().build(6, 4))
    y = torch.randn(3, 6, dtype=torch.float64)
    torch.testing.assert_close(head(y), y @ head.classifier.weight.T + head.classifier.bias)
    assert torch.equal(head.represent(y), y)


@pytest.mark.parametrize(("hidden", "size"), [(None, 6), (10, 10)])
def test_an_mlp_head_has_a_hidden_layer_with_tanh(hidden: int | None, size: int) -> None:
    head = filled(TanhMLP(hidden=hidden).build(6, 4))
    y = torch.randn(3, 6, dtype=torch.float64)
    represented = torch.tanh(y @ head.pre_logits.weight.T + head.pre_logits.bias)
    assert represented.shape == (3, size)
    torch.testing.assert_close(head.represent(y), represented)
    torch.testing.assert_close(head(y), represented @ head.classifier.weight.T + head.classifier.bias)


@pytest.mark.parametrize("kind", [Linear(), TanhMLP()])
def test_without_classes_the_representation_comes_out(kind: Linear | TanhMLP) -> None:
    head = filled(kind.build(6, 0))
    y = torch.randn(3, 6, dtype=torch.float64)
    assert torch.equal(head(y), head.represent(y))
    assert "classifier.weight" not in head.state_dict()
