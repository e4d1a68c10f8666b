"""How many multiply-adds one picture costs: the closed form, and the figures that others have published."""

import random
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from patchwords.layers.bottleneck import NormReLU
from patchwords.layers.conv import StandardisedConv
from patchwords.models.cost import cost
from patchwords.models.names import Config, read
from patchwords.models.vit import ViTConfig

# Billions, as they are printed.
PUBLISHED = {
    "ViT-Ti/16": "1.254",
    "ViT-S/32": "1.143",
    "ViT-S/16": "4.599",
    "ViT-B/32": "4.409",
    "ViT-B/16": "17.564",
    "ViT-B/8": "78.148",
    "ViT-L/32": "15.378",
    "ViT-L/16": "61.555",
    "ViT-H/14": "167.295",
    "ViT-Ti/16@384": "4.682",
    "ViT-S/32@384": "3.443",
    "ViT-S/16@384": "15.490",
    "ViT-B/32@384": "13.044",
    "ViT-B/16@384": "55.484",
    "ViT-B/8@384": "294.04",
    "ViT-L/32@384": "45.276",
    "ViT-L/16@384": "191.066",
    "ViT-H/14@378": "503.48",
    "ViT-L/16@512": "361.986",
    "ViT-H/14@518": "1016.717",
    "BiT-R50x1": "4.089",
    "BiT-R50x2": "16.117",
    "BiT-R101x1": "7.801",
    "BiT-R152x1": "11.514",
    "BiT-R152x2": "45.814",
    "BiT-R152x4": "182.777",
    "BiT-R200x3": "134.347",
    "Swin-T": "4.491",  # as torchvision counts them
    "Swin-S": "8.741",
    "Swin-B": "15.431",
    "Swin-L": "34.5",  # as the paper prints them, Table 1
    "Swin-B@384": "47.1",
    "Swin-L@384": "103.9",
}
WITH_NORMS = {  # as timm prints them
    "ViT-B/16": "17.58",
    "ViT-L/16": "61.60",
    "ViT-H/14": "167.40",
    "R+ViT-Ti/16": "0.44",
    "R+ViT-Ti/16@384": "1.34",
    "R26+ViT-S/32": "3.56",
    "R26+ViT-S/32@384": "10.43",
    "R26+ViT-B/32": "6.81",
    "R50+ViT-B/16": "21.66",
    "R50+ViT-B/16@384": "67.43",
    "R50+ViT-L/32": "19.58",
    "R50+ViT-L/32@384": "57.43",
}


def printed(macs: int, like: str) -> str:
    decimals = len(like.partition(".")[2])
    return f"{macs / 1e9:.{decimals}f}"


def operations_of_norms(config: Config) -> int:
    """Five for each value that a norm writes, four for each weight of a kernel that is standardised."""
    values = 0

    def count(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        nonlocal values
        values += output.numel()

    with torch.device("meta"):
        model = config.build().eval()
        for module in model.modules():
            if isinstance(module, nn.LayerNorm | nn.GroupNorm | NormReLU):
                module.register_forward_hook(count)
        model(torch.empty(1, config.channels, *config.image))
    kernels = sum(conv.weight.numel() for conv in model.modules() if isinstance(conv, StandardisedConv))
    return 5 * values + 4 * kernels


@pytest.mark.parametrize("name", PUBLISHED)
def test_multiply_adds_are_the_published_ones(name: str) -> None:
    assert printed(cost(read(name)).macs, PUBLISHED[name]) == PUBLISHED[name]


@pytest.mark.parametrize("name", WITH_NORMS)
def test_multiply_adds_with_norms_and_standardisation_are_those_that_timm_prints(name: str) -> None:
    config = read(name)
    assert printed(cost(config).macs + operations_of_norms(config), WITH_NORMS[name]) == WITH_NORMS[name]


def closed_form(config: ViTConfig) -> int:
    patches = config.grid[0] * config.grid[1]
    tokens, width, mlp = patches + 1, config.width, config.mlp
    stem = patches * 3 * config.patch[0] * config.patch[1] * width
    layer = 4 * tokens * width**2 + 2 * tokens**2 * width + 2 * tokens * width * mlp
    return stem + config.depth * layer + width * config.classes


@pytest.mark.parametrize("name", [name for name in PUBLISHED if name.startswith("ViT")])
def test_the_closed_form_is_exact_for_the_published_models(name: str) -> None:
    config = read(name)
    assert isinstance(config, ViTConfig)
    assert cost(config).macs == closed_form(config)


@pytest.mark.parametrize("seed", range(10))
def test_the_closed_form_is_exact_for_any_size(seed: int) -> None:
    dice = random.Random(seed)
    heads = dice.randint(1, 4)
    config = ViTConfig(
        depth=dice.randint(1, 3),
        width=heads * dice.randint(1, 20),
        mlp=dice.randint(1, 90),
        heads=heads,
        patch=(3, 4),
        image=(3 * dice.randint(1, 9), 4 * dice.randint(1, 9)),
        classes=dice.randint(1, 30),
    )
    assert cost(config).macs == closed_form(config)


def test_sixteen_by_sixteen_patches_of_224_pixels_are_196_of_768_values() -> None:
    config = read("ViT-B/16")
    assert isinstance(config, ViTConfig)
    assert config.grid == (14, 14)
    assert config.tokens == 197
    with torch.device("meta"):
        assert config.build().embed.patch.weight[0].numel() == 768


def test_half_the_patch_side_costs_four_times_as_much_and_parameters_only_in_kernel_and_table() -> None:
    coarse, fine = cost(replace(read("ViT-S/32"), classes=0)), cost(replace(read("ViT-S/16"), classes=0))
    assert coarse.parameters - fine.parameters == 384 * (3 * (32**2 - 16**2) - (196 - 49))
    assert 4 < fine.macs / coarse.macs < 4.2
