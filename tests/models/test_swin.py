"""Swin as a whole: its sizes, its maps, what it can be asked and what it refuses."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from patchwords.errors import UsageError
from patchwords.layers.unit import Unit
from patchwords.models.build import blank, build
from patchwords.models.names import read
from patchwords.models.swin import SIZES, Swin, SwinConfig

Randomise = Callable[[nn.Module], nn.Module]

SMALL = SwinConfig(depths=(2, 2), heads=(1, 2), width=16, mlp=2, window=(2, 2), image=(32, 32), classes=5)


@pytest.fixture
def model(randomised: Randomise) -> Swin:
    return randomised(SMALL.build()).eval()


def test_a_swin_is_patches_stages_norm_mean_and_head(model: Swin) -> None:
    images = torch.randn(2, 3, 32, 32)
    x = model.embed.norm(model.embed.patch(images).permute(0, 2, 3, 1))
    for stage in model.stages:
        x = stage.merge(x)
        for block in stage.blocks:
            x = block(x)
    y = model.norm(x).flatten(1, 2).mean(1)
    torch.testing.assert_close(model.represent(images), y)
    torch.testing.assert_close(model(images), y @ model.head.classifier.weight.T + model.head.classifier.bias)


def test_every_block_is_a_unit_and_every_second_one_is_shifted(model: Swin) -> None:
    blocks = [block for stage in model.stages for block in stage.blocks]
    assert all(isinstance(block, Unit) for block in blocks)
    assert [block.shift for block in blocks] == [(0, 0), (1, 1), (0, 0), (1, 1)]


def test_stochastic_depth_grows_over_the_blocks_of_all_stages() -> None:
    model = replace(SMALL, depths=(2, 3), stochastic_depth=0.4).build()
    rates = [block.drop.rate for stage in model.stages for block in stage.blocks]
    assert rates == pytest.approx([0.0, 0.1, 0.2, 0.3, 0.4])


def test_features_are_the_maps_of_the_stages_before_they_are_merged(model: Swin) -> None:
    images = torch.randn(2, 3, 32, 32)
    second, first = model.features(images, at=[2, 1])
    assert first.shape == (2, 16, 8, 8)
    assert second.shape == (2, 32, 4, 4)
    x = model.stages[0](model.embed(images))
    assert torch.equal(first, x.permute(0, 3, 1, 2))
    assert torch.equal(second, model.stages[1](x).permute(0, 3, 1, 2))


@pytest.mark.parametrize("number", [0, 3])
def test_a_stage_that_is_not_there_is_refused(model: Swin, number: int) -> None:
    with pytest.raises(UsageError, match=f"there is no layer {number}: layers are numbered 1 to 2"):
        model.features(torch.zeros(1, 3, 32, 32), at=[number])


@pytest.mark.parametrize("image", [(32, 32), (20, 28), (4, 4)])
def test_the_mean_of_the_evidence_is_the_logit_without_its_bias(model: Swin, image: tuple[int, int]) -> None:
    images, of = torch.randn(3, 3, *image), torch.tensor([0, 4, 2])
    evidence = model.evidence(images, of)
    logits = model(images) - model.head.classifier.bias
    torch.testing.assert_close(evidence.mean((1, 2)), logits[[0, 1, 2], of], atol=1e-5, rtol=1e-4)
    assert model.shows == "evidence"


def test_a_model_without_classes_has_no_evidence_for_one() -> None:
    model = replace(SMALL, classes=0).build()
    assert model.shows == "nothing"
    assert model(torch.zeros(1, 3, 32, 32)).shape == (1, 32)
    with pytest.raises(UsageError, match="a model without classes has no evidence"):
        model.evidence(torch.zeros(1, 3, 32, 32), torch.tensor([0]))


def test_what_windows_do_not_have_is_refused(model: Swin) -> None:
    images = torch.zeros(1, 3, 32, 32)
    for ask in (lambda: model.attention(images, at=[1]), lambda: model.gaze(images)):
        with pytest.raises(UsageError, match="window attention has no weights between all tokens"):
            ask()
    with pytest.raises(UsageError, match="a Swin adds nothing for a place"):
        model.positions()


@pytest.mark.parametrize("image", [(32, 48), (20, 36), (4, 32), (4, 4)])
def test_pictures_of_any_size_that_the_patch_divides_are_taken(model: Swin, image: tuple[int, int]) -> None:
    images = torch.randn(2, 3, *image)
    assert model(images).shape == (2, 5)
    torch.testing.assert_close(model(images)[:1], model(images[:1]), rtol=1e-4, atol=1e-5)


def test_a_picture_that_the_patch_does_not_divide_is_refused(model: Swin) -> None:
    with pytest.raises(UsageError, match="image 30x32 is not a multiple of patch 4x4"):
        model(torch.zeros(1, 3, 30, 32))


def test_matrices_and_bias_tables_start_as_the_authors_start_them() -> None:
    state = SwinConfig(depths=(2, 2), heads=(2, 4), width=64, window=(7, 7), image=(56, 56)).build().state_dict()
    for name, tensor in state.items():
        if name.startswith("stages.") and tensor.dim() == 2:
            assert 0.017 < tensor.std() < 0.023, name
        elif name.endswith("bias"):
            assert tensor.abs().max() < 1e-5, name
    assert not state["head.classifier.weight"].any()


# Windows and maps.


def test_maps_are_halved_and_windows_are_no_larger_than_they() -> None:
    config = SwinConfig(depths=(1, 1, 1, 1), heads=(1, 1, 1, 1), width=8, window=(7, 4), image=(72, 48))
    assert config.widths == (8, 16, 32, 64)
    assert config.grids == ((18, 12), (9, 6), (5, 3), (3, 2))
    assert config.windows == ((7, 4), (7, 4), (5, 3), (3, 2))


def test_a_model_keeps_its_windows_on_another_picture(randomised: Randomise) -> None:
    small, large = (randomised(replace(SMALL, image=(side, side)).build()).eval() for side in (32, 64))
    large.load_state_dict(small.state_dict())
    images = torch.randn(1, 3, 64, 64)
    assert torch.equal(small(images), large(images))


# Named sizes.


@pytest.mark.parametrize("letter", SIZES)
def test_a_swin_by_name(letter: str) -> None:
    config = read(f"Swin-{letter}")
    assert isinstance(config, SwinConfig)
    assert (config.width, config.depths, config.heads) == SIZES[letter]
    assert (config.image, config.window, config.patch, config.mlp) == ((224, 224), (7, 7), (4, 4), 4)
    assert config.windows == ((7, 7),) * 4
    assert [width // heads for width, heads in zip(config.widths, config.heads, strict=True)] == [32] * 4


def test_at_384_pixels_the_window_is_12() -> None:
    config = read("Swin-B@384")
    assert isinstance(config, SwinConfig)
    assert config == replace(read("Swin-B"), image=(384, 384), window=(12, 12))
    assert config.windows == ((12, 12),) * 4
    assert read("Swin-B@256x320") == replace(read("Swin-B"), image=(256, 320))


def test_an_unknown_size_hears_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"'Swin-X' is no model's name: there is no size 'X'; did you mean .*Swin-"):
        read("Swin-X")


# What cannot be.


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"depths": (2,)}, "are of another number of stages"),
        ({"depths": ()}, "depths 0 is below 1"),
        ({"heads": (3, 6)}, "width 16 is not a multiple of heads 3"),
        ({"heads": (1, 0)}, "heads 0 is below 1"),
        ({"window": (0, 2)}, "window 0 is below 1"),
        ({"window": 7}, "window: 7 is not a pair"),
        ({"mlp": 0}, "mlp 0 is below 1"),
        ({"image": (30, 32)}, "image 30x32 is not a multiple of patch 4x4"),
        ({"dropout": 1.0}, "dropout 1.0 is no share"),
        ({"stochastic_depth": -0.1}, "stochastic_depth -0.1 is no share"),
        ({"epsilon": 0.0}, "epsilon 0.0 is not between 0 and 1"),
        ({"biases": "qv"}, "biases: 'qv' is not one of qkv, none"),
        ({"classes": -1}, "classes -1 is below 0"),
        ({"depths": (1,) * 9, "heads": (1,) * 9}, "9 stages are more than 8"),
        ({"depths": (1,) * 50_000, "heads": (1,) * 50_000}, "50000 stages are more than 8"),  # told at once
        ({"depths": (2000, 1)}, "2001 blocks are more than 200"),
        ({"image": (40_000, 40_000)}, "places of a map are more than"),
        ({"image": (512, 512), "window": (99, 2)}, "99 places along a window are more than 32"),
    ],
)
def test_what_cannot_be_built_is_refused(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        replace(SMALL, **changes)


# How it runs.


def test_a_blank_model_has_no_memory_and_takes_weights(model: Swin) -> None:
    empty = blank(SMALL)
    assert all(parameter.is_meta for parameter in empty.parameters())
    empty.load_state_dict(model.state_dict(), assign=True)
    images = torch.randn(1, 3, 32, 32)
    assert torch.equal(empty.eval()(images), model(images))


@pytest.mark.parametrize("image", [(32, 32), (28, 20)])
def test_it_compiles_into_one_graph(model: Swin, image: tuple[int, int]) -> None:
    torch.compiler.reset()  # else the other size is compiled for all sizes, which takes long
    images = torch.randn(2, 3, *image)
    compiled = torch.compile(model, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(images), model(images))


def test_half_precision_is_close(model: Swin) -> None:
    images = torch.randn(2, 3, 32, 32)
    torch.testing.assert_close(model.bfloat16()(images.bfloat16()).float(), model.float()(images), rtol=0.1, atol=0.1)


def test_grey_pictures_and_oblong_patches() -> None:
    model = build(replace(SMALL, channels=1, patch=(4, 2), image=(16, 8)))
    assert model.filters().shape == (16, 1, 4, 2)
    assert not model.filters().requires_grad
    assert model(torch.zeros(2, 1, 16, 8)).shape == (2, 5)
