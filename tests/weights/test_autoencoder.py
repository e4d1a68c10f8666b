"""Masked autoencoders as files: what is told is believed, what is not is asked, and nothing is lost on the way."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from patchwords import settings
from patchwords.data.preprocess import IMAGENET, Preprocess
from patchwords.errors import ModelError, UsageError
from patchwords.layers.pool import ClassToken
from patchwords.layers.position import Fixed1D, Learned1D, SinCos2D
from patchwords.models.vit import ViTConfig
from patchwords.objectives.mae import MAE
from patchwords.weights import autoencoder, files
from patchwords.weights.autoencoder import Autoencoder, holds_decoder, open_autoencoder
from patchwords.weights.card import Card
from patchwords.weights.checkpoint import Checkpoint
from patchwords.weights.load import write_native
from patchwords.weights.maps import decoder as maps
from patchwords.weights.maps import timm
from patchwords.weights.rules import give

CONFIG = ViTConfig(
    depth=1, width=24, mlp=40, heads=3, patch=(4, 4), image=(16, 16), classes=0, position=Fixed1D(), activation="gelu"
)
SMALL = MAE(width=16, depth=2, heads=2, mlp=40, ratio=0.5)


def made(config: ViTConfig = CONFIG, chosen: MAE = SMALL, **card: Any) -> Autoencoder:
    """An autoencoder in which no two tensors are alike."""
    torch.manual_seed(0)
    objective = chosen.build(config.build())
    state = {name: torch.randn(tensor.shape) for name, tensor in objective.state_dict().items()}
    model = {name.removeprefix("model."): each for name, each in state.items() if name.startswith("model.")}
    owned = {name: each for name, each in state.items() if not name.startswith("model.")}
    preprocess = Preprocess(size=config.image, mean=(0.5,) * config.channels, deviation=(0.25,) * config.channels)
    return Autoencoder(Checkpoint(Card(model=config, preprocess=preprocess, **card), model, "native"), chosen, owned)


def tensors(whole: Autoencoder) -> dict[str, Tensor]:
    return whole.checkpoint.state | whole.decoder


def assert_same(found: Autoencoder, wanted: Autoencoder) -> None:
    assert found.settings == wanted.settings
    assert tensors(found).keys() == tensors(wanted).keys()
    assert all(torch.equal(tensor, tensors(wanted)[name]) for name, tensor in tensors(found).items())


@pytest.mark.parametrize(
    "chosen", [SMALL, MAE(width=32, depth=1, heads=4, normalise="none"), replace(SMALL, ratio=0.6)]
)
@pytest.mark.parametrize("to", ["native", "huggingface"])
def test_there_and_back_to_the_same_bits(chosen: MAE, to: str, tmp_path: Path) -> None:
    whole = made(chosen=chosen)
    assert autoencoder.write(whole, tmp_path / "out", to) == []
    assert holds_decoder(tmp_path / "out")
    found = open_autoencoder(tmp_path / "out")
    assert_same(found, whole)
    assert found.checkpoint.card.preprocess == whole.checkpoint.card.preprocess
    assert found.checkpoint.card.model == CONFIG
    assert found.checkpoint.notes == []
    given = {"image": torch.randn(2, 3, 16, 16), "noise": torch.rand(2, 16)}
    assert torch.equal(found.build()(given)[0], whole.build()(given)[0])


@pytest.mark.parametrize(
    "config",
    [
        replace(CONFIG, channels=1, image=(16, 24), patch=(4, 8)),
        replace(CONFIG, block="stream-norm", layer_scale=0.1, special=("class", "register"), position=Learned1D()),
        replace(CONFIG, position=SinCos2D()),
    ],
)
def test_a_native_folder_holds_everything(config: ViTConfig, tmp_path: Path) -> None:
    whole = made(config)
    autoencoder.write(whole, tmp_path / "out", "native")
    assert_same(open_autoencoder(tmp_path / "out"), whole)
    with pytest.raises(ModelError, match=r"ViTMAEForPreTraining cannot hold .*: native holds everything"):
        autoencoder.write(whole, tmp_path / "theirs", "huggingface")
    assert not (tmp_path / "theirs").exists()


def test_positions_that_were_learned_are_written_and_it_is_said(tmp_path: Path) -> None:
    whole = made(replace(CONFIG, position=Learned1D()))
    (note,) = autoencoder.write(whole, tmp_path / "out", "huggingface")
    assert "does not train its positions" in note
    found = open_autoencoder(tmp_path / "out")
    assert_same(found, whole)
    assert found.checkpoint.card.model.position == Fixed1D()


def test_a_runs_folder_is_read_by_its_recipe(tmp_path: Path) -> None:
    whole = made()
    write_native(tmp_path / "model.safetensors", whole.checkpoint.card, whole.checkpoint.state)
    files.write(tmp_path / "objective.safetensors", whole.decoder)
    (tmp_path / "run.json").write_text('{"data": "digits"}', encoding="utf-8")
    lines = [f"{key} = {json.dumps(value)}" for key, value in settings.write(SMALL).items()]
    (tmp_path / "recipe.toml").write_text("\n".join(["batch = 8", "[objective]", *lines]), encoding="utf-8")
    assert_same(open_autoencoder(tmp_path), whole)
    (tmp_path / "recipe.toml").write_text('[objective]\nkind = "masked_patch"\n', encoding="utf-8")
    assert not holds_decoder(tmp_path)
    (tmp_path / "recipe.toml").write_text("nothing", encoding="utf-8")
    with pytest.raises(ModelError, match=r"the settings of the objective in .* cannot be read"):
        open_autoencoder(tmp_path)


@pytest.fixture
def original(tmp_path: Path) -> Callable[[Autoencoder], Path]:
    """The names of the original `.pth` files, wrapped as these are."""

    def write(whole: Autoencoder) -> Path:
        state = give([*timm.vit(1), *maps.original()], tensors(whole), "timm")
        torch.save({"model": state}, tmp_path / "mae_visualize.pth")
        return tmp_path / "mae_visualize.pth"

    return write


def test_the_original_files_are_read_and_what_they_do_not_tell_is_said(original: Callable[..., Path]) -> None:
    chosen = MAE(width=512, depth=1, heads=16, normalise="none")
    whole = made(chosen=chosen)
    path = original(whole)
    assert {"mask_token", "decoder_pos_embed", "decoder_blocks.0.attn.qkv.weight"} <= files.read(path).tensors.keys()
    found = open_autoencoder(path, heads=3)
    assert_same(found, whole)
    assert found.checkpoint.card.preprocess == replace(IMAGENET, size=(16, 16))
    assert found.checkpoint.card.model == replace(CONFIG, pool=ClassToken())
    assert sum("assumed" in note for note in found.checkpoint.notes) == 2  # the decoder, the pictures
    assert not any("left out" in note for note in found.checkpoint.notes)


def test_what_a_file_does_not_tell_can_be_said(original: Callable[..., Path]) -> None:
    path = original(made())
    with pytest.raises(ModelError, match="how many heads the decoder's width of 16 is cut into: --set heads"):
        open_autoencoder(path, heads=3)
    found = open_autoencoder(path, heads=3, change={"heads": 2, "normalise": "patch", "ratio": 0.5})
    assert_same(found, made())


@pytest.mark.parametrize("change", [{"width": 8}, {"colour": "red"}])
def test_what_the_weights_decide_is_not_changed(change: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match="cannot be set: the weights of an autoencoder decide all but ratio, normalise, heads"
    ):
        open_autoencoder(tmp_path, change=change)


def test_an_encoder_alone_is_refused(tmp_path: Path) -> None:
    whole = made()
    write_native(tmp_path / "model.safetensors", whole.checkpoint.card, whole.checkpoint.state)
    for path in (tmp_path, tmp_path / "model.safetensors"):
        assert not holds_decoder(path)
        with pytest.raises(ModelError, match="holds no decoder: give the folder of a run with objective mae"):
            open_autoencoder(path)
    with pytest.raises(UsageError, match="nowhere does not exist"):
        open_autoencoder(tmp_path / "nowhere")
    assert not holds_decoder(tmp_path / "nowhere")


@pytest.mark.parametrize("name", ["decoder.blocks.1.norm1.bias", "decoder.mask_token", "decoder.embed.bias"])
def test_a_decoder_that_is_not_whole_is_refused(name: str, tmp_path: Path) -> None:
    whole = made()
    autoencoder.write(whole, tmp_path / "out", "native")
    rest = {key: tensor for key, tensor in whole.decoder.items() if key != name}
    files.write(tmp_path / "out" / "objective.safetensors", rest)
    with pytest.raises(ModelError, match=f"missing in the file: {name}"):
        open_autoencoder(tmp_path / "out").build()


@pytest.mark.parametrize("target", ["out.safetensors", "out.pth"])
def test_an_autoencoder_is_a_folder(target: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is a native or huggingface folder"):
        autoencoder.write(made(), tmp_path / target, "native")


@pytest.mark.parametrize(
    ("key", "value"),
    [("decoder_hidden_size", 8), ("decoder_num_hidden_layers", 9), ("decoder_intermediate_size", 41)],
)
def test_a_config_json_of_another_decoder_is_refused(key: str, value: int, tmp_path: Path) -> None:
    autoencoder.write(made(), tmp_path / "whole", "huggingface")
    place = tmp_path / "whole" / "config.json"
    place.write_text(json.dumps(json.loads(place.read_text()) | {key: value}))
    with pytest.raises(ModelError, match=f"config.json says {key} = {value}, the weights are of"):
        open_autoencoder(tmp_path / "whole")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"depth": 10**9}, "speak of 1000000000 layers, the decoder holds"),
        ({"width": 10**8}, "of another shape: decoder.blocks.0"),
        ({"mlp": 10**20}, "such a decoder cannot be built"),
        ({"mlp": 41}, "decoder.blocks.0.mlp.fc1.bias is 40 in the file and 41 in the model"),
    ],
)
def test_settings_of_another_decoder_are_refused_before_it_is_built(
    change: dict[str, int], sentence: str, tmp_path: Path
) -> None:
    autoencoder.write(made(), tmp_path / "whole", "native")
    place = tmp_path / "whole" / autoencoder.SETTINGS
    place.write_text(json.dumps(json.loads(place.read_text()) | change))
    with pytest.raises(ModelError, match=sentence):
        open_autoencoder(tmp_path / "whole").build()


def test_a_mask_token_without_a_decoder_is_no_autoencoders(original: Callable[..., Path], tmp_path: Path) -> None:
    path = original(made())
    assert holds_decoder(path)
    state = {key: x for key, x in files.read(path).tensors.items() if not key.startswith("decoder_")}
    torch.save({"model": state}, tmp_path / "beit.pth")  # which keeps its own beside the encoder
    assert "mask_token" in state
    assert not holds_decoder(tmp_path / "beit.pth")
