"""The architecture behind weights: shapes tell it, the caller tells the rest, and what is assumed is said."""

import json
import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import patchwords
from patchwords.errors import ModelError
from patchwords.layers.position import Learned1D, SinCos2D
from patchwords.models.hybrid import ResNetStem
from patchwords.models.names import Config, read
from patchwords.models.resnet import ResNetConfig
from patchwords.models.sizes import SIZES
from patchwords.models.vit import ViTConfig
from patchwords.weights.adapt import shapes
from patchwords.weights.checkpoint import Checkpoint, open_checkpoint
from patchwords.weights.convert import convert, structure
from patchwords.weights.describe import HEADS, Told, describe
from patchwords.weights.recognise import choose

Open = Callable[..., Checkpoint]


def described(config: Config, format: str = "timm", **told: Any) -> Config:
    """What the weights of a configuration say of it when they come from a format."""
    return describe(shapes(config), choose(format, config), Told(**told))


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Callable[[], str]:
    """What was said so far on the `patchwords` logger, as warnings."""
    caplog.set_level(logging.WARNING, logger="patchwords")
    return lambda: "\n".join(
        r.getMessage() for r in caplog.records if (r.name, r.levelname) == ("patchwords", "WARNING")
    )


@pytest.mark.parametrize("format", ["official", "big_vision"])
def test_heads_are_carried_by_the_shapes_of_flax(
    format: str, tiny: ViTConfig, checkpoint: Open, said: Callable[[], str], tmp_path: Path
) -> None:
    convert(checkpoint(replace(tiny, heads=6)), tmp_path / "f.npz", format)
    assert patchwords.load(tmp_path / "f.npz").config.heads == 6
    assert said() == ""


def test_heads_are_carried_by_config_json(
    tiny: ViTConfig, checkpoint: Open, said: Callable[[], str], tmp_path: Path
) -> None:
    convert(checkpoint(replace(tiny, heads=6)), tmp_path / "folder", "huggingface")
    assert patchwords.load(tmp_path / "folder").config.heads == 6
    assert said() == ""


def test_the_caller_has_the_last_word_on_heads(tiny: ViTConfig, checkpoint: Open, tmp_path: Path) -> None:
    convert(checkpoint(tiny), tmp_path / "f.safetensors", "timm")
    assert patchwords.load(tmp_path / "f.safetensors", heads=12).config.heads == 12


def test_heads_are_assumed_for_a_known_width_and_that_is_said(
    tiny: ViTConfig, checkpoint: Open, said: Callable[[], str], tmp_path: Path
) -> None:
    convert(checkpoint(replace(tiny, width=192, mlp=64, heads=6)), tmp_path / "f.safetensors", "timm")
    assert patchwords.load(tmp_path / "f.safetensors").config.heads == 3
    assert "does not say how many heads there are: 3 are assumed for width 192" in said()
    assert "f.safetensors" in said()


def test_heads_are_not_guessed_for_an_unknown_width(tiny: ViTConfig, checkpoint: Open, tmp_path: Path) -> None:
    convert(checkpoint(tiny), tmp_path / "f.safetensors", "timm")
    way = r"width of 48 .*: `patchwords convert FILE OUT\.safetensors --heads N` writes one that does; heads=…"
    with pytest.raises(ModelError, match=way):
        patchwords.load(tmp_path / "f.safetensors")


def test_heads_that_do_not_divide_the_width_are_refused(tiny: ViTConfig, checkpoint: Open, tmp_path: Path) -> None:
    convert(checkpoint(tiny), tmp_path / "f.safetensors", "timm")
    with pytest.raises(patchwords.errors.PatchwordsError, match="width 48 is not a multiple of heads 5"):
        patchwords.load(tmp_path / "f.safetensors", heads=5)


def test_assumed_heads_are_those_of_the_sizes_and_no_width_has_two() -> None:
    for name in ("Ti", "S", "M", "B", "L", "H", "So400m", "g", "G", "e"):
        assert HEADS[SIZES[name].width] == SIZES[name].heads
    assert SIZES["g-opt"].width not in HEADS  # g-opt and DINOv2's giant have this width and other heads


def test_what_nothing_says_of_pictures_is_assumed_and_said(
    tiny: ViTConfig, checkpoint: Open, said: Callable[[], str], tmp_path: Path
) -> None:
    convert(checkpoint(tiny), tmp_path / "f.safetensors", "timm")
    patchwords.load(tmp_path / "f.safetensors", heads=3)
    assert "nothing says how pictures are prepared" in said()


def test_timms_config_json_says_how_pictures_are_prepared(tiny: ViTConfig, checkpoint: Open, tmp_path: Path) -> None:
    convert(checkpoint(tiny), tmp_path / "model.safetensors", "timm")
    prepared = {"mean": [0.1, 0.2, 0.3], "std": [0.4, 0.5, 0.6], "crop_pct": 0.9, "interpolation": "bicubic"}
    (tmp_path / "config.json").write_text(json.dumps({"pretrained_cfg": prepared}), encoding="utf-8")
    found = open_checkpoint(tmp_path, heads=3)
    assert found.notes == []
    value = found.card.preprocess
    assert (value.fit, value.crop, value.interpolation, value.size) == ("crop", 0.9, "bicubic", (16, 16))
    assert (value.mean, value.deviation) == ((0.1, 0.2, 0.3), (0.4, 0.5, 0.6))


@pytest.mark.parametrize("name", ["ViT-Ti/16", "ViT-B/32", "ViT-L/16", "ViT-H/14", "ViT-B/8-gap", "ViT-S/16-map@384"])
def test_a_model_of_the_paper_is_known_by_its_shapes(name: str) -> None:
    config = read(name)
    assert structure(described(config, "official", heads=config.heads)) == structure(config)  # type: ignore[union-attr]


@pytest.mark.parametrize("name", ["R50+ViT-B/16", "R26+ViT-S/32", "R50+ViT-L/32", "R+ViT-Ti/16"])
def test_a_hybrid_is_known_by_its_shapes(name: str) -> None:
    config = read(name)
    assert structure(described(config, "official", heads=config.heads)) == structure(config)  # type: ignore[union-attr]


@pytest.mark.parametrize("name", ["BiT-R50x1", "BiT-R101x3", "R152x2"])
def test_a_resnet_is_known_by_its_shapes(name: str) -> None:
    config = read(name)
    assert structure(described(config, "official")) == structure(config)


@pytest.mark.parametrize("channels", [1, 2, 4, 13])
@pytest.mark.parametrize("kind", ["vit", "hybrid", "resnet"])
def test_channels_are_those_of_the_first_kernel(channels: int, kind: str, tiny: ViTConfig) -> None:
    configs: dict[str, Config] = {
        "vit": tiny,
        "hybrid": replace(tiny, image=(32, 32), patch=(1, 1), stem=ResNetStem(units=(1, 1), width=32)),
        "resnet": ResNetConfig(units=(1, 1), width=32),
    }
    config = replace(configs[kind], channels=channels)
    assert described(config, heads=3, image=config.image).channels == channels


def test_pictures_of_other_channels_are_centred(tiny: ViTConfig, checkpoint: Open, tmp_path: Path) -> None:
    convert(checkpoint(replace(tiny, channels=5)), tmp_path / "f.npz", "official")
    preprocess = open_checkpoint(tmp_path / "f.npz").card.preprocess
    assert preprocess.mean == preprocess.deviation == (0.5,) * 5


def test_a_table_for_an_oblong_picture_needs_its_size(tiny: ViTConfig) -> None:
    config = replace(tiny, image=(16, 28))  # 4 x 7 patches
    with pytest.raises(ModelError, match=r"29 positions .* trained_at=\(height, width\)"):
        described(config, heads=3)
    found = described(config, heads=3, image=(16, 28))
    assert (found.image, found.grid) == ((16, 28), (4, 7))  # type: ignore[union-attr]
    assert described(config, heads=3, image=(28, 16)).grid == (7, 4)  # type: ignore[union-attr]


def test_a_size_that_does_not_fit_the_table_is_refused(tiny: ViTConfig) -> None:
    with pytest.raises(ModelError, match="17 positions"):
        described(tiny, heads=3, image=(20, 20))


def test_a_wish_is_taken_for_the_size_of_an_oblong_table(tiny: ViTConfig) -> None:
    config = replace(tiny, image=(16, 28))
    assert described(config, heads=3, wish=(16, 28)).image == (16, 28)


def test_a_wish_is_only_a_wish_where_the_table_is_square(tiny: ViTConfig) -> None:
    assert described(tiny, heads=3, wish=(32, 64)).image == (16, 16)


def test_a_table_that_fits_the_wish_with_a_class_row_is_not_taken_for_a_square_without_one(tiny: ViTConfig) -> None:
    config = replace(tiny, image=(16, 24))  # 24 patches and the class token: 25 rows, a square by chance
    found = described(config, heads=3, wish=(16, 24))
    assert (found.image, structure(found)["position.over"]) == ((16, 24), 1)


@pytest.mark.parametrize(
    ("over", "rows"), [("tokens", 3), ("class", 1), ("patches", 0)], ids=["all", "class", "patches"]
)
def test_the_rows_of_special_tokens_are_counted(over: Any, rows: int, tiny: ViTConfig) -> None:
    config = replace(tiny, special=("class", "register", "register"), position=Learned1D(over=over))
    assert shapes(config)["embed.position.table"].shape[1] == 16 + rows
    assert structure(described(config, heads=3))["position.over"] == rows


def test_no_table_means_sines_in_big_vision_and_that_is_said(
    tiny: ViTConfig, checkpoint: Open, said: Callable[[], str], tmp_path: Path
) -> None:
    convert(checkpoint(replace(tiny, position=SinCos2D())), tmp_path / "f.npz", "big_vision")
    config = patchwords.load(tmp_path / "f.npz", image=16).config
    assert (config.position, config.image) == (SinCos2D(), (16, 16))
    assert "no position table: sincos-2d for a picture of 16x16 is assumed" in said()


def test_weights_without_a_patch_embedding_are_refused(tiny: ViTConfig) -> None:
    state: dict[str, Tensor] = {k: v for k, v in shapes(tiny).items() if k != "embed.patch.weight"}
    with pytest.raises(ModelError, match=r"embed\.patch\.weight is missing"):
        describe(state, choose("timm", tiny), Told(heads=3))


def test_weights_without_blocks_are_refused(tiny: ViTConfig) -> None:
    state = {k: v for k, v in shapes(tiny).items() if not k.startswith("encoder.blocks.")}
    with pytest.raises(ModelError, match=r"encoder\.blocks\.0\.mlp\.fc1\.weight is missing"):
        describe(state, choose("timm", tiny), Told(heads=3))


def test_blocks_with_a_gap_between_them_are_refused(tiny: ViTConfig, checkpoint: Open, tmp_path: Path) -> None:
    opened = checkpoint(replace(tiny, depth=3))
    state = {k: v for k, v in opened.state.items() if not k.startswith("encoder.blocks.1.")}
    timm = {
        "encoder.blocks": "blocks",
        "attention.qkv": "attn.qkv",
        "attention.out": "attn.proj",
        "embed.special.class_token": "cls_token",
        "embed.position.table": "pos_embed",
        "embed.patch": "patch_embed.proj",
        "encoder.norm": "norm",
        "head.classifier": "head",
    }
    for ours, theirs in timm.items():
        state = {name.replace(ours, theirs): tensor for name, tensor in state.items()}
    torch.save(state, tmp_path / "gap.pth")
    with pytest.raises(ModelError, match=r"missing in the file: encoder\.blocks\.1\."):
        open_checkpoint(tmp_path / "gap.pth", heads=3)


def test_the_size_of_a_resnets_picture_is_free(checkpoint: Open, tmp_path: Path) -> None:
    convert(checkpoint(ResNetConfig(units=(1,), width=32)), tmp_path / "f.npz", "official")
    assert patchwords.load(tmp_path / "f.npz").config.image == (224, 224)
    assert patchwords.load(tmp_path / "f.npz", image=(64, 96)).config.image == (64, 96)
