"""Weights for another size, patch, head or number of channels: what must change does, and nothing else."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import patchwords
from patchwords.errors import ModelError, UsageError
from patchwords.layers.bottleneck import POST
from patchwords.layers.head import Distilled, Linear, TanhMLP
from patchwords.layers.pool import Mean
from patchwords.layers.position import (
    Fixed1D,
    Learned1D,
    Learned2D,
    NoPosition,
    Position,
    Relative,
    RelativeBias,
    SinCos2D,
    Sinusoidal1D,
)
from patchwords.models.deit import deit3, distilled
from patchwords.models.hybrid import ResNetStem
from patchwords.models.names import Config, read
from patchwords.models.resnet import ResNetConfig
from patchwords.models.sizes import Size
from patchwords.models.vit import ViTConfig
from patchwords.ops.resampling import Convention, resample_line, resample_table
from patchwords.weights.adapt import adapt, is_position, mix_channels, shapes

Fill = Callable[[Config], dict[str, Tensor]]

POSITIONS: list[Position] = [
    NoPosition(),
    Learned1D(),
    Learned1D(over="patches"),
    Learned1D(at="every"),
    Learned1D(at="shared"),
    Learned2D(),
    Learned2D(at="every"),
    SinCos2D(),
    Sinusoidal1D(),
    Fixed1D(),
    Relative(),
    RelativeBias(),
    RelativeBias(at="shared"),
]
positions = pytest.mark.parametrize("position", POSITIONS, ids=lambda p: f"{p.kind} {p.at} {getattr(p, 'over', '')}")


@positions
@pytest.mark.parametrize("image", [(24, 24), (8, 8), (16, 28)], ids=str)
def test_positions_of_every_kind_fit_another_picture_and_nothing_else_changes(
    position: Position, image: tuple[int, int], tiny: ViTConfig, filled: Fill
) -> None:
    old = replace(tiny, position=position)
    new = replace(old, image=image)
    state = filled(old)
    adapted = adapt(state, old, new)
    wanted = shapes(new)
    assert {name: x.shape for name, x in adapted.items()} == {name: x.shape for name, x in wanted.items()}
    for name, tensor in state.items():
        if tensor.shape == wanted[name].shape:
            assert torch.equal(adapted[name], tensor), name
        else:
            assert "position" in name or "offsets" in name
    model = new.build()
    model.load_state_dict(adapted)
    assert model(torch.zeros(1, 3, *image)).isfinite().all()


@positions
def test_positions_are_the_parameters_that_a_model_without_them_does_not_have(
    position: Position, tiny: ViTConfig
) -> None:
    placed, bare = (shapes(replace(tiny, position=each)).keys() for each in (position, NoPosition()))
    assert {name for name in placed if is_position(name)} == placed - bare


@positions
def test_nothing_changes_where_nothing_is_asked(position: Position, tiny: ViTConfig, filled: Fill) -> None:
    config = replace(tiny, position=position)
    state = filled(config)
    adapted = adapt(state, config, config)
    assert adapted.keys() == state.keys()
    assert all(adapted[name] is state[name] for name in state)


@pytest.mark.parametrize("convention", ["paper", "bicubic", "bicubic-antialias", "torchvision"])
def test_the_table_is_resampled_by_the_convention_that_was_asked_for(
    convention: Convention, tiny: ViTConfig, filled: Fill
) -> None:
    state = filled(tiny)
    table = state["embed.position.table"]
    found = adapt(state, tiny, replace(tiny, image=(24, 20)), convention)["embed.position.table"]
    assert torch.equal(found, resample_table(table, (4, 4), (6, 5), convention))
    assert torch.equal(found[:, 0], table[:, 0])  # the class token's row


@pytest.mark.parametrize("side", [12, 24])
def test_no_two_conventions_agree(side: int, tiny: ViTConfig, filled: Fill) -> None:
    state = filled(tiny)
    conventions: list[Convention] = ["paper", "bicubic", "bicubic-antialias", "torchvision"]
    new = replace(tiny, image=(side, side))
    tables = [adapt(state, tiny, new, convention)["embed.position.table"] for convention in conventions]
    for i, table in enumerate(tables):
        assert not any(torch.allclose(table, other, atol=1e-3) for other in tables[:i])


def test_a_constant_table_stays_constant_and_corners_stay_corners(tiny: ViTConfig, filled: Fill) -> None:
    state = filled(tiny)
    old = state["embed.position.table"][0, 1:].unflatten(0, (4, 4))
    found = adapt(state, tiny, replace(tiny, image=(36, 28)))["embed.position.table"][0, 1:].unflatten(0, (9, 7))
    for row, col in ((0, 0), (0, -1), (-1, 0), (-1, -1)):
        assert torch.allclose(found[row, col], old[row, col], atol=1e-6)
    state["embed.position.table"] = torch.full_like(state["embed.position.table"], 0.3)
    flat = adapt(state, tiny, replace(tiny, image=(36, 28)))["embed.position.table"]
    assert torch.allclose(flat, torch.tensor(0.3), atol=1e-6)


def test_tables_along_an_axis_are_stretched_end_on_end(tiny: ViTConfig, filled: Fill) -> None:
    old = replace(tiny, position=Learned2D())
    state = filled(old)
    adapted = adapt(state, old, replace(old, image=(28, 16)))
    rows = state["embed.position.rows"]
    assert torch.equal(adapted["embed.position.rows"], resample_line(rows, 7))
    assert torch.allclose(adapted["embed.position.rows"][[0, -1]], rows[[0, -1]])
    assert torch.allclose(adapted["embed.position.rows"][1], (rows[0] + rows[1]) / 2, atol=1e-6)
    assert adapted["embed.position.cols"] is state["embed.position.cols"]


@pytest.mark.parametrize(
    "config",
    [
        ResNetConfig(units=(1, 1), width=32, image=(64, 64), classes=7),
        ViTConfig(
            depth=1, width=48, mlp=96, heads=3, patch=(1, 1), image=(32, 32), stem=ResNetStem(units=(1, 1), width=32)
        ),
    ],
    ids=["resnet", "hybrid"],
)
def test_convolutions_are_for_any_picture(config: Config, filled: Fill) -> None:
    state = filled(config)
    adapted = adapt(state, config, replace(config, image=(64, 96)))
    assert all(adapted[name] is state[name] for name in state if "position" not in name)


def test_a_new_head_starts_at_zero_and_the_body_is_kept(tiny: ViTConfig, filled: Fill) -> None:
    state = filled(tiny)
    adapted = adapt(state, tiny, replace(tiny, classes=3))
    assert not adapted["head.classifier.weight"].any()
    assert not adapted["head.classifier.bias"].any()
    assert all(adapted[name] is state[name] for name in state if not name.startswith("head."))


def test_both_classifiers_of_a_distilled_head_start_anew(tiny: ViTConfig, filled: Fill) -> None:
    old = distilled(tiny)
    new = replace(old, classes=3, head=Distilled(bias=-2.0))
    state = filled(old)
    adapted = adapt({name: x for name, x in state.items() if not name.startswith("head.")}, old, new)
    for classifier in ("head.classifier", "head.teacher"):
        assert torch.equal(adapted[f"{classifier}.weight"], torch.zeros(3, tiny.width))
        assert torch.equal(adapted[f"{classifier}.bias"], torch.full((3,), -2.0))
    assert all(torch.equal(adapted[name], state[name]) for name in state if not name.startswith("head."))


def test_a_distilled_model_has_two_new_classifiers_for_new_classes(
    tiny: ViTConfig, native: Callable[..., Path]
) -> None:
    path = native(distilled(tiny), classes=tuple("abcdefg"))
    model = patchwords.load(path, classes=["x", "y"])
    assert model.config.head == Distilled()
    assert not any(parameter.any() for parameter in model.head.parameters())
    kept = patchwords.load(path)
    assert all(parameter.any() for parameter in kept.head.parameters())


def test_deit_iiis_positions_are_over_patches_alone_when_resampled(filled: Fill) -> None:
    old = replace(deit3(Size(2, 48, 96, 3), (4, 4), (16, 16)), classes=7)
    adapted = adapt(filled(old), old, replace(old, image=(24, 24)))
    assert adapted["embed.position.table"].shape == (1, 36, 48)


def test_a_new_heads_bias_starts_where_the_configuration_says(tiny: ViTConfig, filled: Fill) -> None:
    adapted = adapt(filled(tiny), tiny, replace(tiny, classes=3, head=Linear(bias=-10.0)))
    assert not adapted["head.classifier.weight"].any()
    assert (adapted["head.classifier.bias"] == -10).all()


def test_without_classes_the_head_is_dropped(tiny: ViTConfig, filled: Fill) -> None:
    adapted = adapt(filled(tiny), tiny, replace(tiny, classes=0))
    assert not [name for name in adapted if name.startswith("head.")]


def test_a_hidden_layer_is_not_made_up(tiny: ViTConfig, filled: Fill) -> None:
    with pytest.raises(ModelError, match="a hidden layer cannot start at zero"):
        adapt(filled(tiny), tiny, replace(tiny, head=TanhMLP()))


STEM = ResNetStem(units=(1, 1), width=32)
FIRST: dict[str, tuple[Config, str]] = {
    "vit": (ViTConfig(depth=1, width=48, mlp=96, heads=3, patch=(4, 4), image=(16, 16)), "embed.patch.weight"),
    "hybrid": (
        ViTConfig(depth=1, width=48, mlp=96, heads=3, patch=(1, 1), image=(32, 32), stem=STEM),
        "embed.stem.root.conv.weight",
    ),
    "resnet": (ResNetConfig(units=(1,), width=32, image=(32, 32), form=POST), "root.conv.weight"),
}


@pytest.mark.parametrize("channels", [1, 2, 4, 5, 6])
@pytest.mark.parametrize(("old", "first"), FIRST.values(), ids=FIRST)
def test_other_channels_sum_the_colours_or_repeat_them_at_the_same_strength(
    channels: int, old: Config, first: str, filled: Fill
) -> None:
    state = filled(old)
    adapted = adapt(state, old, replace(old, channels=channels))
    repeated = state[first][:, [i % 3 for i in range(channels)]] * 3 / channels
    wanted = state[first].sum(1, keepdim=True) if channels == 1 else repeated
    assert torch.allclose(adapted[first], wanted)
    assert all(adapted[name] is state[name] for name in state if name != first)


@pytest.mark.parametrize("channels", [1, 6])
def test_one_channel_and_whole_repeats_answer_any_grey_picture_as_colours_did(channels: int) -> None:
    kernel, grey = torch.randn(8, 3, 4, 4), torch.rand(2, 1, 8, 8)
    found = F.conv2d(grey.expand(-1, channels, -1, -1), mix_channels(kernel, channels))
    assert torch.allclose(found, F.conv2d(grey.expand(-1, 3, -1, -1), kernel), atol=1e-4)


@pytest.mark.parametrize("channels", [1, 4, 5])
def test_a_kernel_of_equal_colours_keeps_its_response_to_grey_exactly(channels: int) -> None:
    kernel = torch.randn(8, 1, 4, 4).expand(-1, 3, -1, -1)
    grey = torch.rand(2, 1, 8, 8)
    wanted = F.conv2d(grey.expand(-1, 3, -1, -1), kernel)
    found = F.conv2d(grey.expand(-1, channels, -1, -1), mix_channels(kernel, channels))
    assert torch.allclose(found, wanted, atol=1e-5)


def test_a_model_for_grey_pictures_gives_the_logits_of_the_same_picture_in_colour(
    tiny: ViTConfig, native: Callable[..., Path]
) -> None:
    path = native(tiny)
    colour, grey = patchwords.load(path).eval(), patchwords.load(path, channels=1).eval()
    x = torch.rand(2, 1, 16, 16)
    assert torch.allclose(grey(x), colour(x.expand(-1, 3, -1, -1)), atol=1e-3)


def test_a_larger_patch_answers_enlarged_patches_as_the_smaller_answered_them(tiny: ViTConfig, filled: Fill) -> None:
    state = filled(tiny)
    adapted = adapt(state, tiny, replace(tiny, patch=(8, 8), image=(32, 32)))
    patches = torch.randn(5, 3, 4, 4)
    enlarged = F.interpolate(patches, size=(8, 8), mode="bilinear", align_corners=False, antialias=True)
    wanted = F.conv2d(patches, state["embed.patch.weight"])
    assert torch.allclose(F.conv2d(enlarged, adapted["embed.patch.weight"]), wanted, atol=1e-3)
    assert adapted["embed.position.table"] is state["embed.position.table"]  # the grid is the same


def test_patch_and_channels_change_together(tiny: ViTConfig, filled: Fill) -> None:
    adapted = adapt(filled(tiny), tiny, replace(tiny, patch=(8, 4), channels=1))
    assert adapted["embed.patch.weight"].shape == (48, 1, 8, 4)


@pytest.mark.parametrize(
    "changes",
    [
        {"depth": 3},
        {"width": 96},
        {"heads": 6},
        {"activation": "gelu"},
        {"special": ("class", "register")},
        {"position": Learned2D()},
        {"special": (), "pool": Mean()},
        {"epsilon": 1e-5},
    ],
    ids=lambda changes: ", ".join(changes),
)
def test_another_architecture_is_refused(changes: dict[str, object], tiny: ViTConfig, filled: Fill) -> None:
    with pytest.raises(ModelError, match="another architecture"):
        adapt(filled(tiny), tiny, replace(tiny, **changes))  # type: ignore[arg-type]


def test_a_vit_is_no_resnet(tiny: ViTConfig, filled: Fill) -> None:
    with pytest.raises((ModelError, TypeError)):
        adapt(filled(tiny), tiny, ResNetConfig(units=(1,), width=32))  # type: ignore[arg-type]


def test_weights_that_did_not_fit_before_are_refused_with_both_shapes(tiny: ViTConfig, filled: Fill) -> None:
    state = filled(tiny) | {"encoder.norm.weight": torch.zeros(47)}
    with pytest.raises(ModelError, match=r"encoder\.norm\.weight is 47 in the file and 48 in the model"):
        adapt(state, tiny, replace(tiny, image=(32, 32)))


def test_a_picture_that_the_patch_does_not_divide_is_refused(tiny: ViTConfig, native: Callable[..., Path]) -> None:
    with pytest.raises(UsageError, match="image 18x18 is not a multiple of patch 4x4"):
        patchwords.load(native(tiny), image=18)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_stays_what_it_is_when_resampled(dtype: torch.dtype, tiny: ViTConfig, filled: Fill) -> None:
    state = {name: tensor.to(dtype) for name, tensor in filled(tiny).items()}
    adapted = adapt(state, tiny, replace(tiny, image=(24, 24), patch=(2, 2), channels=4))
    assert {tensor.dtype for tensor in adapted.values()} == {dtype}


class TestLoading:
    """The same through `patchwords.load`."""

    NAMES = tuple("abcdefg")

    def test_the_head_is_kept_for_the_same_classes(self, tiny: ViTConfig, native: Callable[..., Path]) -> None:
        path = native(tiny, classes=self.NAMES)
        kept = patchwords.load(path).head.classifier.weight
        assert kept.any()
        for same in (7, self.NAMES, list(self.NAMES)):
            assert torch.equal(patchwords.load(path, classes=same).head.classifier.weight, kept)

    @pytest.mark.parametrize("other", [3, ("x", "y"), tuple("gfedcba"), tuple("ABCDEFG")], ids=str)
    def test_the_head_is_new_for_other_classes(
        self, other: int | tuple[str, ...], tiny: ViTConfig, native: Callable[..., Path]
    ) -> None:
        model = patchwords.load(native(tiny, classes=self.NAMES), classes=other)
        assert model.config.classes == (other if isinstance(other, int) else len(other))
        assert not model.head.classifier.weight.any()

    def test_a_hidden_layer_goes_with_the_old_head(self, tiny: ViTConfig, native: Callable[..., Path]) -> None:
        path = native(replace(tiny, head=TanhMLP()))
        assert patchwords.load(path).config.head == TanhMLP()
        model = patchwords.load(path, classes=3)
        assert model.config.head == Linear()
        assert not [name for name in model.state_dict() if "pre_logits" in name]

    def test_names_for_a_nameless_head_of_the_same_size_keep_it(
        self, tiny: ViTConfig, native: Callable[..., Path]
    ) -> None:
        model = patchwords.load(native(tiny), classes=self.NAMES)
        assert model.head.classifier.weight.any()


def test_positions_are_resampled_where_only_the_shape_of_the_picture_changes() -> None:
    old = replace(read("ViT-Mu/4"), image=(16, 16), classes=3)
    new = replace(old, image=(8, 32))  # 4x4 patches and 2x8: as many
    state = dict(old.build().state_dict())
    table = adapt(state, old, new)["embed.position.table"]
    assert torch.equal(table, resample_table(state["embed.position.table"], (4, 4), (2, 8)))
    assert not torch.equal(table, state["embed.position.table"])
