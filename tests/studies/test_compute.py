"""Operations of a training, counted by hand; what is frozen; and the units they are told in."""

from dataclasses import replace

import pytest

from patchwords.models.cost import cost
from patchwords.models.names import Config
from patchwords.models.vit import ViTConfig
from patchwords.studies.compute import a_picture, training, unit, worded

TINY = ViTConfig(depth=3, width=16, mlp=24, heads=2, patch=(4, 4), image=(8, 12), channels=3, classes=5)


def multiply_adds(config: ViTConfig) -> tuple[int, int, int]:
    """Of one picture forward: the patches, the layers, the head."""
    rows, cols = config.image[0] // config.patch[0], config.image[1] // config.patch[1]
    width, tokens = config.width, rows * cols + 1
    layer = 4 * tokens * width**2 + 2 * tokens**2 * width + 2 * tokens * width * config.mlp
    patches = rows * cols * config.channels * config.patch[0] * config.patch[1] * width
    return patches, config.depth * layer, width * config.classes


@pytest.mark.parametrize(
    "config", [TINY, replace(TINY, depth=1, classes=2), replace(TINY, image=(4, 4)), replace(TINY, channels=1)]
)
def test_a_picture_costs_two_operations_a_multiply_add_and_twice_as_many_back(config: ViTConfig) -> None:
    """Of the pictures themselves nobody wants a gradient."""
    patches, layers, head = multiply_adds(config)
    assert a_picture(config) == 2 * (2 * patches + 3 * (layers + head))


def test_what_is_frozen_needs_no_gradients() -> None:
    patches, layers, head = multiply_adds(TINY)
    assert a_picture(TINY, "backbone") == 2 * (patches + layers + 2 * head)


def test_all_pictures_cost_the_same_and_are_told_in_exaflops() -> None:
    assert training(TINY, 1000) == 1000 * a_picture(TINY) / 10**18
    assert training(TINY, 1000, "backbone") < 0.4 * training(TINY, 1000)
    assert training(TINY, 0) == 0


@pytest.mark.parametrize(
    "name",
    ["plain", "hybrid", "resnet post", "swin", "mean", "map", "distilled", "axial", "relative", "grey", "2d every"],
)
def test_any_model_costs_about_three_times_its_forward_pass(name: str, small_configs: dict[str, Config]) -> None:
    config = small_configs[name]
    assert 4 * cost(config).macs < a_picture(config) < 6.6 * cost(config).macs


@pytest.mark.parametrize(
    ("exaflops", "said"),
    [
        (55.0, "55 exaFLOPs"),
        (1.0, "1 exaFLOPs"),
        (0.5, "500 PFLOPs"),
        (2.344e-6, "2.34 TFLOPs"),
        (8.52e-9, "8.52 GFLOPs"),
        (1e-12, "1 MFLOPs"),
        (1e-15, "0.001 MFLOPs"),
        (0.0, "0 MFLOPs"),
    ],
)
def test_operations_are_told_in_the_largest_unit_of_which_there_is_one(exaflops: float, said: str) -> None:
    assert worded(exaflops) == said
    assert said.endswith(unit(exaflops)[0])
