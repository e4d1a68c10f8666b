"""A fused Swin computes what the plain one does, forward and backward, with the same draws."""

import copy
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from patchwords.models.names import Config
from patchwords.models.swin import SwinConfig
from patchwords.speed.fused.window import fuse_windows
from patchwords.speed.kernels import table

SWIN = SwinConfig(depths=(2, 2), heads=(1, 2), width=16, window=(2, 4), patch=(2, 2), image=(16, 32), classes=5)


def gradients(model: nn.Module, images: Tensor, seed: int) -> tuple[Tensor, dict[str, Tensor | None]]:
    torch.manual_seed(seed)
    logits = model(images)
    logits.square().sum().backward()
    return logits, {name: parameter.grad for name, parameter in model.named_parameters()}


def pair(config: SwinConfig, randomised: Callable[[nn.Module], nn.Module]) -> tuple[nn.Module, nn.Module]:
    """A plain model and its fused copy, in double precision."""
    plain = randomised(config.build()).double().train()
    model = copy.deepcopy(plain)
    fuse_windows(model, table.plain(), torch.float64)
    assert list(model.state_dict()) == list(plain.state_dict())
    return plain, model


@pytest.mark.parametrize(
    "config",
    [
        SWIN,
        replace(SWIN, biases="none"),
        replace(SWIN, activation="gelu-tanh"),
        replace(SWIN, stochastic_depth=0.5, depths=(2, 3)),
        replace(SWIN, image=(32, 48), window=(4, 4)),  # the second stage's map is 8 by 12
    ],
)
@pytest.mark.parametrize("size", [(0, 0), (4, 2)])  # larger pictures, whose maps the windows do not divide
def test_logits_and_gradients_are_those_of_the_plain_model(
    config: SwinConfig, size: tuple[int, int], randomised: Callable[[nn.Module], nn.Module]
) -> None:
    plain, model = pair(config, randomised)
    images = torch.randn(4, 3, config.image[0] + size[0], config.image[1] + size[1], dtype=torch.float64)
    (found, mine), (expected, theirs) = gradients(model, images, 3), gradients(plain, images, 3)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(mine, theirs)


def test_blocks_are_counted(small_configs: dict[str, Config]) -> None:
    assert fuse_windows(SWIN.build(), table.plain(), torch.float32) == (4, 4)
    assert fuse_windows(replace(SWIN, dropout=0.1).build(), table.plain(), torch.float32) == (0, 4)
    assert fuse_windows(replace(SWIN, window=(8, 12)).build(), table.plain(), torch.float32) == (2, 4)
    assert fuse_windows(replace(SWIN, width=24).build(), table.plain(), torch.float32) == (0, 4)
    assert fuse_windows(small_configs["plain"].build(), table.plain(), torch.float32) == (0, 0)
