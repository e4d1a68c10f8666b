"""ResNet (BiT): stages, the vector before the head, and the maps between."""

from collections.abc import Callable

import pytest
import torch
from torch import nn

from patchwords.errors import UsageError
from patchwords.layers.bottleneck import POST, PRE, Form
from patchwords.models.resnet import UNITS, ResNet, ResNetConfig

Randomise = Callable[[nn.Module], nn.Module]


@pytest.fixture(params=["post", "pre"])
def model(request: pytest.FixtureRequest, randomised: Randomise) -> ResNet:
    form = POST if request.param == "post" else PRE
    return randomised(ResNetConfig(units=(1, 2, 1), width=32, form=form, classes=5).build())


def test_a_resnet_is_root_stages_mean_and_head(model: ResNet) -> None:
    images = torch.randn(2, 3, 48, 32)
    x = model.root(images)
    for stage in model.stages:
        x = stage(x)
    if model.config.form.activation == "pre":
        x = nn.functional.group_norm(x, 32, model.norm.weight, model.norm.bias, 1e-5).relu()
    y = x.mean((2, 3))
    torch.testing.assert_close(model.represent(images), y)
    torch.testing.assert_close(model(images), y @ model.head.classifier.weight.T + model.head.classifier.bias)


@pytest.mark.parametrize(("form", "has_norm"), [(POST, False), (PRE, True)])
def test_only_the_pre_activation_form_ends_with_a_norm(form: Form, has_norm: bool) -> None:
    state = ResNetConfig(units=(1,), width=32, form=form).build().state_dict()
    assert ("norm.weight" in state) == has_norm
    assert ("root.norm.weight" in state) != has_norm


def test_features_are_the_maps_after_the_stages_in_the_order_asked_for(model: ResNet) -> None:
    images = torch.randn(2, 3, 64, 32)
    third, first = model.features(images, at=[3, 1])
    assert first.shape == (2, 128, 16, 8)
    assert third.shape == (2, 512, 4, 2)
    assert torch.equal(first, model.stages[0](model.root(images)))


@pytest.mark.parametrize("number", [0, 4])
def test_a_stage_that_is_not_there_is_refused(model: ResNet, number: int) -> None:
    with pytest.raises(UsageError, match=f"there is no layer {number}: layers are numbered 1 to 3"):
        model.features(torch.zeros(1, 3, 32, 32), at=[number])


def test_the_mean_of_the_evidence_is_the_logit_without_its_bias(model: ResNet) -> None:
    images, of = torch.randn(3, 3, 64, 32), torch.tensor([0, 4, 2])
    evidence = model.evidence(images, of)
    assert evidence.shape == (3, 4, 2)
    logits = model(images) - model.head.classifier.bias
    torch.testing.assert_close(evidence.mean((1, 2)), logits[[0, 1, 2], of], atol=1e-5, rtol=1e-4)


def test_evidence_is_where_the_map_speaks_for_the_class(model: ResNet) -> None:
    images = torch.randn(1, 3, 64, 32)
    found = model.evidence(images, torch.tensor([3]))[0]
    for row, col in [(0, 0), (3, 1), (2, 0)]:
        expected = model.maps(images)[0, :, row, col] @ model.head.classifier.weight[3]
        torch.testing.assert_close(found[row, col], expected, atol=1e-5, rtol=1e-4)


def test_a_resnet_without_classes_shows_nothing(model: ResNet) -> None:
    assert model.shows == "evidence"
    features = ResNetConfig(units=(1,), width=32, classes=0).build()
    assert features.shows == "nothing"
    with pytest.raises(UsageError, match="a model without classes has no evidence for one"):
        features.evidence(torch.randn(1, 3, 32, 32), torch.tensor([0]))


def test_the_filters_of_a_resnet_are_the_standardised_kernels_of_its_root(model: ResNet) -> None:
    filters = model.filters()
    assert filters.shape == (32, 3, 7, 7)
    assert torch.equal(filters, model.root.conv.standardise(model.root.conv.weight))
    torch.testing.assert_close(filters.mean((1, 2, 3)), torch.zeros(32), atol=1e-6, rtol=0)


def test_a_resnet_says_that_it_has_no_attention_and_no_positions(model: ResNet) -> None:
    images = torch.randn(1, 3, 32, 32)
    for ask in (model.gaze, lambda images: model.attention(images, at=[1])):
        with pytest.raises(UsageError, match="a ResNet has no attention weights: ask a ViT, or a hybrid, for them"):
            ask(images)
    with pytest.raises(UsageError, match="a ResNet adds nothing for a place"):
        model.positions()


def test_a_resnet_takes_pictures_of_any_size(model: ResNet) -> None:
    for size in [(32, 32), (45, 70)]:
        assert model(torch.randn(1, 3, *size)).shape == (1, 5)


def test_units_count_to_the_depth_in_the_name() -> None:
    assert {depth: 2 + 3 * sum(units) for depth, units in UNITS.items()} == {depth: depth for depth in UNITS}


def test_a_width_that_the_groups_do_not_divide_is_refused() -> None:
    with pytest.raises(UsageError, match="width 48 is not a multiple of GroupNorm's 32 groups"):
        ResNetConfig(units=(1,), width=48)
