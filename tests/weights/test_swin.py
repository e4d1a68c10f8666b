"""Swin's files: timm's, torchvision's and the authors' own names both ways, and weights for other windows and sizes."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import patchwords
from patchwords.data.preprocess import IMAGENET
from patchwords.errors import ModelError, UsageError
from patchwords.models.build import build
from patchwords.models.names import Config
from patchwords.models.swin import SwinConfig
from patchwords.models.vit import ViTConfig
from patchwords.ops.offsets import offsets
from patchwords.weights.adapt import adapt
from patchwords.weights.card import Card
from patchwords.weights.checkpoint import Checkpoint, open_checkpoint
from patchwords.weights.convert import convert
from patchwords.weights.load import save

Randomise = Callable[[nn.Module], nn.Module]

# Maps of 16x16, 8x8 and 4x4.
OURS = SwinConfig(depths=(2, 1, 2), heads=(1, 2, 2), width=8, mlp=2, window=(4, 4), image=(64, 64), classes=3)
FORMATS = {"timm": "a.safetensors", "microsoft": "a.pth", "torchvision": "a.pth", "huggingface": "a"}
formats = pytest.mark.parametrize("name", FORMATS)


@pytest.fixture
def checkpoint(randomised: Randomise) -> Callable[[Config], Checkpoint]:
    def make(config: Config) -> Checkpoint:
        model = randomised(build(config))
        return Checkpoint(Card(model=config), dict(model.state_dict()), "native")

    return make


# There and back.


@formats
@pytest.mark.parametrize("classes", [3, 0])
def test_there_and_back_bit_for_bit(
    name: str, classes: int, checkpoint: Callable[[Config], Checkpoint], tmp_path: Path
) -> None:
    before = checkpoint(replace(OURS, classes=classes))
    convert(before, tmp_path / FORMATS[name], name)
    after = open_checkpoint(tmp_path / FORMATS[name], image=OURS.image)
    assert (after.format, after.card.model) == (name, before.card.model)
    assert after.state.keys() == before.state.keys()
    assert all(torch.equal(after.state[key], before.state[key]) for key in after.state)


def theirs(checkpoint: Checkpoint, path: Path, name: str) -> dict[str, Tensor]:
    convert(checkpoint, path, name)
    return torch.load(path, weights_only=True)


def test_merging_stands_where_each_library_has_it(checkpoint: Callable[[Config], Checkpoint], tmp_path: Path) -> None:
    ours = checkpoint(OURS)
    second = ours.state["stages.1.merge.reduction.weight"]
    places = {"timm": "layers.1.downsample", "microsoft": "layers.0.downsample", "torchvision": "features.2"}
    for name, place in places.items():
        state = theirs(ours, tmp_path / f"{name}.pth", name)
        assert torch.equal(state[f"{place}.reduction.weight"], second)
    assert torch.equal(state["features.5.1.attn.qkv.weight"], ours.state["stages.2.blocks.1.attention.qkv.weight"])
    assert torch.equal(state["features.1.0.attn.relative_position_index"], offsets((4, 4)).flatten())


def test_the_authors_buffers_are_left_out_by_name(checkpoint: Callable[[Config], Checkpoint], tmp_path: Path) -> None:
    state = theirs(checkpoint(OURS), tmp_path / "a.pth", "microsoft")
    state |= {
        "layers.0.blocks.1.attn_mask": torch.zeros(16, 16, 16),
        "layers.0.blocks.0.attn.relative_position_index": offsets((4, 4)),
    }
    torch.save({"model": state, "epoch": 300}, tmp_path / "b.pth")
    found = open_checkpoint(tmp_path / "b.pth", wish=(64, 64))
    assert found.card.model == OURS
    assert found.notes == [
        "2 tensors are left out, they stand beside the model's own: "
        "layers.0.blocks.0.attn.relative_position_index, layers.0.blocks.1.attn_mask"
    ]
    torch.save({"model": state | {"layers.0.blocks.0.attn.logit_scale": torch.ones(1)}}, tmp_path / "c.pth")
    with pytest.raises(ModelError, match=r"no rule knows layers.0.blocks.0.attn.logit_scale"):
        open_checkpoint(tmp_path / "c.pth")


def test_an_index_of_another_window_is_refused(checkpoint: Callable[[Config], Checkpoint], tmp_path: Path) -> None:
    state = theirs(checkpoint(OURS), tmp_path / "a.pth", "torchvision")
    torch.save(state | {"features.1.0.attn.relative_position_index": torch.zeros(81)}, tmp_path / "b.pth")
    with pytest.raises(ModelError, match="such shapes cannot be"):
        open_checkpoint(tmp_path / "b.pth")


@pytest.mark.parametrize(
    ("changes", "name", "sentence"),
    [
        ({"window": (4, 2)}, "timm", "no square window"),
        ({"window": (4, 2)}, "microsoft", "windows that are not square"),
        ({"window": (4, 2)}, "torchvision", "windows that are not square"),
        ({"window": (8, 8)}, "torchvision", "larger than a stage's map"),
        ({"window": (8, 8)}, "huggingface", "larger than a stage's map"),
        ({"epsilon": 1e-3}, "huggingface", "an epsilon of 0.001: only 1e-5"),
        ({"image": (72, 72)}, "microsoft", "windows that do not divide every map"),
        ({"image": (72, 72), "window": (9, 9), "depths": (2, 2, 1)}, "microsoft", "a map with an odd side"),
        ({"image": (32, 64), "window": (2, 2)}, "microsoft", "one window high and several wide"),
        ({"depths": (2,), "heads": (1,)}, "microsoft", "a single stage"),
        ({}, "official", "has no names for such a model"),
    ],
)
def test_what_a_format_cannot_hold_is_refused(
    changes: dict[str, Any], name: str, sentence: str, checkpoint: Callable[[Config], Checkpoint], tmp_path: Path
) -> None:
    with pytest.raises(ModelError, match=sentence):
        convert(checkpoint(replace(OURS, **changes)), tmp_path / FORMATS.get(name, "a.npz"), name)


def test_windows_that_small_maps_have_made_smaller_are_told_by_timms_tables(
    checkpoint: Callable[[Config], Checkpoint], tmp_path: Path
) -> None:
    small = checkpoint(replace(OURS, window=(6, 6)))
    notes = convert(small, tmp_path / "a.pth", "timm")
    assert not any("trained_at" in note for note in notes)  # 6, 6 and 4 are the windows of 64 pixels
    assert open_checkpoint(tmp_path / "a.pth").card.model == small.card.model


# What a file does not say.


def test_the_picture_is_assumed_and_the_assumption_said(
    checkpoint: Callable[[Config], Checkpoint], tmp_path: Path
) -> None:
    larger = checkpoint(replace(OURS, image=(128, 96)))
    said = convert(larger, tmp_path / "a.pth", "timm")
    assert said == [
        "the timm format has no place for how pictures are prepared",
        "it must be read with trained_at=(128, 96)",
    ]
    found = open_checkpoint(tmp_path / "a.pth")
    assert found.card.model.image == (64, 64)
    assert found.notes == ["nothing says how large its pictures are: 64x64 is assumed"]
    assert found.card.preprocess.mean == IMAGENET.mean
    assert open_checkpoint(tmp_path / "a.pth", image=(128, 96)).card.model == larger.card.model
    assert open_checkpoint(tmp_path / "a.pth", wish=(128, 96)).card.model == larger.card.model


def test_a_wish_for_pictures_that_these_windows_cannot_be_of_is_no_size_of_the_file(
    checkpoint: Callable[[Config], Checkpoint], tmp_path: Path
) -> None:
    convert(checkpoint(OURS), tmp_path / "a.pth", "timm")
    assert open_checkpoint(tmp_path / "a.pth", wish=(32, 32)).card.model.image == (64, 64)
    with pytest.raises(ModelError, match="49, 49, 49 offsets are for no square window on pictures of 32x32"):
        open_checkpoint(tmp_path / "a.pth", image=(32, 32))


def test_files_of_published_sizes_are_understood_without_help(tmp_path: Path) -> None:
    model = build(replace(OURS, depths=(1, 1, 1, 1), heads=(1, 1, 1, 1), window=(12, 12), image=(384, 384)))
    convert(Checkpoint(Card(model=model.config), dict(model.state_dict()), "native"), tmp_path / "a.pth", "microsoft")
    assert open_checkpoint(tmp_path / "a.pth").card.model == model.config


# Other sizes.


def test_another_window_resamples_the_tables_bicubically(checkpoint: Callable[[Config], Checkpoint]) -> None:
    old, new = checkpoint(OURS), replace(OURS, window=(3, 3))
    state = adapt(old.state, OURS, new)
    name = "stages.0.blocks.1.attention.offsets.table"
    maps = old.state[name].mT.unflatten(1, (7, 7))[None]
    wanted = F.interpolate(maps, size=(5, 5), mode="bicubic", align_corners=False)[0].flatten(1).mT
    torch.testing.assert_close(state[name], wanted)
    changed = [key for key in state if not torch.equal(state[key], old.state[key])]
    assert all(key.endswith("offsets.table") for key in changed)
    assert len(changed) == 5
    new.build().load_state_dict(state)


def test_a_larger_picture_changes_nothing_but_windows_that_were_made_smaller(
    checkpoint: Callable[[Config], Checkpoint], tmp_path: Path
) -> None:
    config = replace(OURS, window=(6, 6))  # the last maps of 4x4 have windows of 4
    before = checkpoint(config)
    convert(before, tmp_path / "a.safetensors", "native")
    model = patchwords.load(tmp_path / "a.safetensors", image=128)
    assert model.config == replace(config, image=(128, 128))
    state = model.state_dict()
    changed = [key for key in state if state[key].shape != before.state[key].shape]
    assert changed == [f"stages.2.blocks.{i}.attention.offsets.table" for i in (0, 1)]
    assert all(torch.equal(state[key], before.state[key]) for key in state if key not in changed)


def test_the_window_is_kept_unless_another_is_asked_for(
    checkpoint: Callable[[Config], Checkpoint], tmp_path: Path
) -> None:
    convert(checkpoint(OURS), tmp_path / "a.safetensors", "native")
    assert patchwords.load(tmp_path / "a.safetensors", image=96).config.window == (4, 4)
    model = patchwords.load(tmp_path / "a.safetensors", image=96, window=6)
    assert model.config == replace(OURS, image=(96, 96), window=(6, 6))
    assert model.eval()(torch.zeros(1, 3, 96, 96)).shape == (1, 3)
    save(model, tmp_path / "b.safetensors")
    assert patchwords.load(tmp_path / "b.safetensors").config == model.config


def test_classes_channels_and_patches_change_as_in_any_model(
    checkpoint: Callable[[Config], Checkpoint], tmp_path: Path
) -> None:
    convert(checkpoint(OURS), tmp_path / "a.safetensors", "native")
    model = patchwords.load(tmp_path / "a.safetensors", classes=9, channels=1, patch=8, image=128)
    assert model(torch.zeros(2, 1, 128, 128)).shape == (2, 9)
    assert not model.head.classifier.weight.any()


def test_a_model_without_windows_has_none_to_change(tmp_path: Path) -> None:
    save(build(ViTConfig(depth=1, width=8, mlp=8, heads=1, patch=(4, 4), image=(8, 8))), tmp_path / "a.safetensors")
    with pytest.raises(UsageError, match="window is not a setting"):
        patchwords.load(tmp_path / "a.safetensors", window=4)


def test_another_depth_is_another_architecture(checkpoint: Callable[[Config], Checkpoint]) -> None:
    with pytest.raises(ModelError, match="only image, patch, window, channels, classes and head can be adapted"):
        adapt(checkpoint(OURS).state, OURS, replace(OURS, mlp=3))


# Files that nobody could have written in good faith, and what they say beside their weights.


@pytest.mark.parametrize("name", ["timm", "microsoft"])
def test_a_stage_of_a_number_that_no_model_has_is_refused_at_once(
    name: str, checkpoint: Callable[[Config], Checkpoint], tmp_path: Path
) -> None:
    state = theirs(checkpoint(OURS), tmp_path / "a.pth", name)
    torch.save(state | {"layers.900000000.blocks.0.norm1.weight": torch.ones(8)}, tmp_path / "b.pth")
    with pytest.raises(ModelError, match="stage 900000000 is there, and not every stage before it"):
        open_checkpoint(tmp_path / "b.pth", image=OURS.image)


def test_a_stage_that_is_missing_is_named(checkpoint: Callable[[Config], Checkpoint], tmp_path: Path) -> None:
    state = theirs(checkpoint(OURS), tmp_path / "a.pth", "timm")
    torch.save({key: x for key, x in state.items() if not key.startswith("layers.1.")}, tmp_path / "b.pth")
    with pytest.raises(ModelError, match="stage 2 is there, and not every stage before it"):
        open_checkpoint(tmp_path / "b.pth", image=OURS.image)


def test_heads_that_the_tables_do_not_have_are_refused(
    checkpoint: Callable[[Config], Checkpoint], tmp_path: Path
) -> None:
    convert(checkpoint(OURS), tmp_path / "a.pth", "timm")
    with pytest.raises(ModelError, match=r"heads are 2, but the weights are of \(1, 2, 2\)"):
        open_checkpoint(tmp_path / "a.pth", heads=2)
