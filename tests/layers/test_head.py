"""Section 3.1: one linear layer to fine-tune, a hidden layer with tanh to pre-train, two classifiers, or none."""

import pytest
import torch
from torch import nn

from patchwords.layers.head import Distilled, Head, HeadKind, Linear, TanhMLP


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


def test_a_distilled_head_answers_with_the_mean_of_two_classifiers_each_of_its_own_token() -> None:
    head = filled(Distilled().build(6, 4))
    y = torch.randn(3, 2, 6, dtype=torch.float64)
    by_label = y[:, 0] @ head.classifier.weight.T + head.classifier.bias
    by_teacher = y[:, 1] @ head.teacher.weight.T + head.teacher.bias
    for found, wanted in zip(head.pair(y), (by_label, by_teacher), strict=True):
        torch.testing.assert_close(found, wanted)
    torch.testing.assert_close(head(y), (by_label + by_teacher) / 2)
    torch.testing.assert_close(head.represent(y), (y[:, 0] + y[:, 1]) / 2)


@pytest.mark.parametrize("mode", [True, False], ids=["training", "evaluation"])
def test_a_distilled_head_answers_alike_whether_it_trains_or_not(mode: bool) -> None:
    head = filled(Distilled().build(6, 4)).train(mode)
    y = torch.randn(3, 2, 6, dtype=torch.float64)
    assert torch.equal(head(y), sum(head.pair(y)) / 2)


def test_a_distilled_head_starts_at_zero_with_the_bias_of_its_settings() -> None:
    head = Distilled(bias=-3.0).build(6, 4)
    assert not head.classifier.weight.any()
    assert not head.teacher.weight.any()
    assert head.classifier.bias.tolist() == head.teacher.bias.tolist() == [-3.0] * 4


def test_a_distilled_head_without_classes_gives_the_mean_of_its_tokens() -> None:
    head = Distilled().build(6, 0)
    y = torch.randn(3, 2, 6)
    torch.testing.assert_close(head(y), head.represent(y))
    assert head.state_dict() == {}


@pytest.mark.parametrize(
    ("kind", "renewed"),
    [(Linear(bias=-10.0), Linear()), (TanhMLP(hidden=5), Linear()), (Distilled(bias=1.0), Distilled())],
)
def test_what_takes_a_heads_place_for_other_classes(kind: HeadKind, renewed: HeadKind) -> None:
    assert kind.renewed == renewed
