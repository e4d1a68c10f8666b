"""The units of ResNet (BiT) in both forms, written out, and what a stage does to size and channels."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from patchwords.layers.bottleneck import POST, PRE, Form, NormReLU, PostUnit, PreUnit, Root, stages

COARSE_POST = replace(POST, epsilon=0.1)  # an epsilon that shows
COARSE_PRE = replace(PRE, epsilon=0.1)


def filled(module: nn.Module) -> nn.Module:
    for parameter in module.parameters():
        nn.init.normal_(parameter)
    return module.double()


def norm(x: Tensor, layer: nn.GroupNorm | NormReLU, epsilon: float = 0.1) -> Tensor:
    """GroupNorm of 32 groups by hand."""
    groups = x.reshape(x.shape[0], 32, -1)
    variance, mean = torch.var_mean(groups, -1, correction=0, keepdim=True)
    x = ((groups - mean) / torch.sqrt(variance + epsilon)).reshape(x.shape)
    return x * layer.weight[:, None, None] + layer.bias[:, None, None]


def conv(x: Tensor, weight: Tensor, form: Form, stride: int = 1) -> Tensor:
    kernel = weight.shape[2]
    if kernel == 3:
        sides = (1, 1, 1, 1) if form.padding == "symmetric" or stride == 1 else (0, 1, 0, 1)  # for even sizes
        x = F.pad(x, sides)
    return F.conv2d(x, form.standardise(weight), stride=stride)


@pytest.mark.parametrize(("inputs", "stride"), [(128, 1), (64, 1), (128, 2)])
def test_a_post_activation_unit_has_its_norms_behind_and_adds_before_the_last_relu(inputs: int, stride: int) -> None:
    unit = filled(PostUnit(inputs, 32, stride, COARSE_POST))
    x = torch.randn(2, inputs, 6, 4, dtype=torch.float64)
    y = norm(conv(x, unit.conv1.weight, POST), unit.norm1).relu()
    y = norm(conv(y, unit.conv2.weight, POST, stride), unit.norm2).relu()
    y = norm(conv(y, unit.conv3.weight, POST), unit.norm3)
    projected = inputs != 128 or stride != 1
    shortcut = norm(conv(x, unit.shortcut.conv.weight, POST, stride), unit.shortcut.norm) if projected else x
    torch.testing.assert_close(unit(x), (y + shortcut).relu())


@pytest.mark.parametrize(("inputs", "stride"), [(128, 1), (64, 1), (128, 2)])
def test_a_pre_activation_unit_has_its_norms_in_front_and_projects_the_first_of_them(inputs: int, stride: int) -> None:
    unit = filled(PreUnit(inputs, 32, stride, COARSE_PRE))
    x = torch.randn(2, inputs, 6, 4, dtype=torch.float64)
    first = norm(x, unit.norm1).relu()
    y = conv(first, unit.conv1.weight, PRE)
    y = conv(norm(y, unit.norm2).relu(), unit.conv2.weight, PRE, stride)
    y = conv(norm(y, unit.norm3).relu(), unit.conv3.weight, PRE)
    projected = inputs != 128 or stride != 1
    shortcut = conv(first, unit.shortcut.conv.weight, PRE, stride) if projected else x
    torch.testing.assert_close(unit(x), y + shortcut)


def test_the_forms_have_the_small_numbers_of_their_code_bases() -> None:
    assert (POST.epsilon, POST.standardise.to, POST.standardise.epsilon) == (1e-6, "deviation", 1e-5)
    assert (PRE.epsilon, PRE.standardise.to, PRE.standardise.epsilon) == (1e-5, "variance", 1e-10)
    assert (POST.padding, PRE.padding) == ("same", "symmetric")


@pytest.mark.parametrize("form", [POST, PRE])
def test_the_root_divides_the_picture_by_four(form: Form) -> None:
    root = Root(3, 32, form)
    for image, size in {(32, 24): (8, 6), (33, 30): (9, 8)}.items():
        assert root(torch.randn(1, 3, *image)).shape == (1, 32, *size)


def test_the_root_of_the_post_form_has_a_norm_and_pads_behind() -> None:
    root = filled(Root(3, 32, COARSE_POST))
    x = torch.randn(1, 3, 8, 12, dtype=torch.float64)
    y = F.conv2d(F.pad(x, (2, 3, 2, 3)), POST.standardise(root.conv.weight), stride=2)
    y = norm(y, root.norm).relu()
    torch.testing.assert_close(root(x), F.max_pool2d(F.pad(y, (0, 1, 0, 1)), 3, 2))


def test_the_root_of_the_pre_form_has_no_norm_and_pads_with_zeros_all_around() -> None:
    root = filled(Root(3, 32, PRE))
    x = torch.randn(1, 3, 8, 12, dtype=torch.float64)
    y = F.conv2d(F.pad(x, (3, 3, 3, 3)), PRE.standardise(root.conv.weight), stride=2)
    torch.testing.assert_close(root(x), F.max_pool2d(F.pad(y, (1, 1, 1, 1)), 3, 2))
    assert set(root.state_dict()) == {"conv.weight"}


@pytest.mark.parametrize("form", [POST, PRE])
def test_stages_double_the_channels_and_all_but_the_first_halve_the_map(form: Form) -> None:
    x = torch.randn(1, 32, 8, 12)
    shapes = []
    for stage in stages((2, 1, 1), 32, form):
        x = stage(x)
        shapes.append(tuple(x.shape[1:]))
    assert shapes == [(128, 8, 12), (256, 4, 6), (512, 2, 3)]


@pytest.mark.parametrize("form", [POST, PRE])
def test_only_the_first_unit_of_a_stage_has_a_projection(form: Form) -> None:
    (stage,) = stages((3,), 32, form)
    assert ["shortcut.conv.weight" in unit.state_dict() for unit in stage.units] == [True, False, False]
