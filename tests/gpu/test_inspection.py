"""On a CUDA device, fused, plain and compiled attention give the maps and distances that the CPU gives."""

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from patchwords.inspection.distance import attention_distance
from patchwords.inspection.patch import patch_attention
from patchwords.inspection.rollout import attention_map
from patchwords.inspection.sight import sight
from patchwords.models.names import Config

Randomise = Callable[[nn.Module], nn.Module]

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
    pytest.mark.filterwarnings("ignore"),  # inductor's advice on precision is not ours to mend
]

GAZING = ["plain", "mean", "map", "map over patches", "1d over class", "relative", "lite", "hybrid"]


@pytest.fixture(autouse=True)
def exact() -> None:
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False


@pytest.mark.parametrize("small_config", GAZING, indirect=True)
def test_fused_plain_and_compiled_give_the_maps_of_the_cpu(small_config: Config, randomised: Randomise) -> None:
    torch._dynamo.reset()
    model = randomised(small_config.build()).eval()
    images = torch.randn(3, small_config.channels, *small_config.image)
    expected = attention_map(model, images)
    model, images = model.cuda(), images.cuda()
    found = {"fused": attention_map(model, images)}
    with sdpa_kernel(SDPBackend.MATH):
        found["plain"] = attention_map(model, images)
    found["whole compiled"] = torch.compile(partial(attention_map, model))(images)
    for block in model.encoder.blocks:
        block.compile()
    found["blocks compiled"] = attention_map(model, images)
    for name, shown in found.items():
        torch.testing.assert_close(shown.cpu(), expected, atol=1e-5, rtol=0, msg=lambda text, name=name: name + text)


@pytest.mark.parametrize("small_config", GAZING, indirect=True)
def test_distances_and_patches_are_those_of_the_cpu(small_config: Config, randomised: Randomise) -> None:
    model = randomised(small_config.build()).eval()
    images = torch.randn(3, small_config.channels, *small_config.image)
    pixels = attention_distance(model, [images]).pixels
    weights = patch_attention(model, images, 2, (1, 1)).patches
    model, images = model.cuda(), images.cuda()
    np.testing.assert_allclose(attention_distance(model, [images]).pixels, pixels, rtol=1e-4)
    torch.testing.assert_close(patch_attention(model, images, 2, (1, 1)).patches.cpu(), weights, atol=1e-5, rtol=0)


@pytest.mark.parametrize("small_config", ["plain", "axial", "resnet pre"], indirect=True)
def test_sight_comes_back_to_the_cpu(small_config: Config, randomised: Randomise) -> None:
    model = randomised(small_config.build()).eval()
    images, of = torch.randn(3, small_config.channels, *small_config.image), torch.tensor([0, 3, 1])
    expected = sight(model, images, of).maps
    np.testing.assert_allclose(sight(model.cuda(), images.cuda(), of).maps, expected, atol=1e-4)


def test_a_large_picture_needs_little_memory() -> None:
    from dataclasses import replace

    from patchwords.models.names import read

    model = replace(read("ViT-B/16"), image=(1024, 1024)).build().cuda().eval()
    images = torch.randn(1, 3, 1024, 1024, device="cuda")
    attention_map(model, images)
    assert torch.cuda.max_memory_allocated() < 2 << 30
