"""Swin's stream of inference gives the plain model's logits, for maps that the windows cover and for others."""

import copy
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import nn

from patchwords.models.names import Config
from patchwords.models.swin import SwinConfig
from patchwords.speed.fused.maps import pyramid_of, stream_maps
from patchwords.speed.kernels import table

SWIN = SwinConfig(depths=(2, 2, 1), heads=(1, 2, 4), width=16, window=(4, 4), patch=(2, 2), image=(32, 32), classes=5)


@pytest.mark.parametrize("config", [SWIN, replace(SWIN, biases="none", activation="gelu-tanh", window=(2, 3))])
@pytest.mark.parametrize("image", [(32, 32), (32, 48), (30, 26), (36, 34)])  # the last with odd maps to merge
@torch.inference_mode()
def test_the_logits_are_the_same(
    config: SwinConfig, image: tuple[int, int], randomised: Callable[[nn.Module], nn.Module]
) -> None:
    model = randomised(config.build()).eval()
    images = torch.randn(2, 3, *image)
    made = copy.deepcopy(model)
    parts = pyramid_of(made)
    assert parts is not None
    stream_maps(parts, table.plain(), torch.float32)
    before = images.clone()
    torch.testing.assert_close(made(images), model(images), atol=2e-5, rtol=2e-5)
    torch.testing.assert_close(made(images), model(images), atol=2e-5, rtol=2e-5)
    assert torch.equal(images, before)


def test_weights_are_held_once() -> None:
    model = SWIN.build()
    parts = pyramid_of(model)
    assert parts is not None
    stream_maps(parts, table.plain(), torch.float32)
    assert not any("blocks" in name for name, _ in model.named_parameters())


@pytest.mark.parametrize("small_config", ["plain", "resnet pre", "swin odd"], indirect=True)
def test_other_models_have_no_pyramid(small_config: Config) -> None:
    assert pyramid_of(small_config.build()) is None
