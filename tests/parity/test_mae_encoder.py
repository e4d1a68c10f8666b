"""Live beside transformers' ViTMAE with nothing masked: its encoder loads here, ours there, the tokens are the same."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import patchwords
from patchwords.errors import ModelError
from patchwords.layers.pool import ClassToken, Mean
from patchwords.layers.position import Fixed1D, Learned1D
from patchwords.models.build import build
from patchwords.models.vit import ViTConfig
from patchwords.weights import files
from patchwords.weights.card import Card
from patchwords.weights.checkpoint import Checkpoint, open_checkpoint
from patchwords.weights.convert import convert, structure

Randomise = Callable[[nn.Module], nn.Module]
Difference = Callable[[Tensor, Tensor], float]

CLOSE = 2e-5
SIZES = {"hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 96}
SIZES |= {"image_size": 16, "patch_size": 4, "decoder_hidden_size": 32, "decoder_num_hidden_layers": 2}
SIZES |= {"decoder_num_attention_heads": 2, "decoder_intermediate_size": 64}
OURS = ViTConfig(depth=2, width=48, mlp=96, heads=3, patch=(4, 4), image=(16, 16), classes=0, position=Fixed1D())


def pictures() -> Tensor:
    return 2 * torch.rand(2, 3, 16, 16, generator=torch.Generator().manual_seed(1)) - 1


def config_of(hf: ModuleType, **sizes: Any) -> Any:
    return hf.ViTMAEConfig(**SIZES | {"mask_ratio": 0.0} | sizes)


def tokens(theirs: Any) -> Tensor:
    """All tokens of their encoder, none masked, in the order of the picture."""
    return theirs(pictures(), noise=torch.arange(16.0).expand(2, -1)).last_hidden_state


def our_tokens(ours: Any) -> Tensor:
    return ours.encoder(ours.embed(pictures())).x


def written(model: Any, folder: Path) -> Path:
    convert(Checkpoint(Card(model=model.config), dict(model.state_dict()), "native"), folder, "huggingface")
    return folder


def test_a_bare_encoder_of_transformers_gives_the_same_tokens_here_and_goes_back_to_the_bit(
    hf: ModuleType, randomise: Randomise, difference: Difference, tmp_path: Path
) -> None:
    theirs = randomise(hf.ViTMAEModel(config_of(hf)))
    theirs.save_pretrained(tmp_path / "theirs")
    ours = patchwords.load(tmp_path / "theirs").eval()
    assert (ours.config.position, ours.config.pool, ours.config.classes) == (Fixed1D(), ClassToken(), 0)
    assert difference(our_tokens(ours), tokens(theirs)) <= CLOSE
    convert(open_checkpoint(tmp_path / "theirs"), tmp_path / "ours", "huggingface")
    found, wanted = files.read(tmp_path / "ours").tensors, files.read(tmp_path / "theirs").tensors
    assert found.keys() == wanted.keys()
    assert all(torch.equal(found[name], wanted[name]) for name in wanted)


@pytest.mark.parametrize("names", ["files", "memory"])
def test_the_encoder_of_an_autoencoder_is_read_and_its_decoder_left_out(
    names: str, hf: ModuleType, randomise: Randomise, difference: Difference, tmp_path: Path
) -> None:
    theirs = randomise(hf.ViTMAEForPreTraining(config_of(hf)))
    theirs.save_pretrained(tmp_path / "folder")
    torch.save(theirs.state_dict(), tmp_path / "memory.pth")
    path = tmp_path / ("folder" if names == "files" else "memory.pth")
    opened = open_checkpoint(path, heads=3)
    assert opened.card.model.position == Fixed1D()  # type: ignore[union-attr]
    assert any("left out" in note and "decoder.decoder_embed.bias" in note for note in opened.notes)
    ours = patchwords.load(tmp_path / "folder").eval()
    assert difference(our_tokens(ours), tokens(theirs.vit)) <= CLOSE


def test_the_decoders_names_in_the_files_of_older_versions_are_left_out_alike(
    hf: ModuleType, randomise: Randomise, tmp_path: Path
) -> None:
    randomise(hf.ViTMAEForPreTraining(config_of(hf))).save_pretrained(tmp_path / "new")
    tensors = files.read(tmp_path / "new").tensors
    old = {name.replace("decoder_encoder.layer.", "decoder_layers."): tensor for name, tensor in tensors.items()}
    torch.save(old, tmp_path / "old.pth")
    found, wanted = open_checkpoint(tmp_path / "old.pth", heads=3), open_checkpoint(tmp_path / "new")
    assert found.state.keys() == wanted.state.keys()


def test_our_encoder_gives_the_same_tokens_in_transformers(
    hf: ModuleType, randomise: Randomise, difference: Difference, tmp_path: Path
) -> None:
    ours = randomise(build(OURS))
    folder = written(ours, tmp_path / "folder")
    theirs, said = hf.ViTMAEModel.from_pretrained(folder, mask_ratio=0.0, output_loading_info=True)
    assert {name: list(keys) for name, keys in said.items() if keys} == {}
    assert difference(tokens(theirs.eval()), our_tokens(ours)) <= CLOSE


def test_a_new_table_is_the_one_that_transformers_begins_with(hf: ModuleType, difference: Difference) -> None:
    embeddings = type(hf.ViTMAEModel(config_of(hf)).embeddings)(config_of(hf))
    embeddings.initialize_weights()
    assert difference(build(OURS).embed.position.table, embeddings.position_embeddings) <= 1e-6
    assert not embeddings.position_embeddings.requires_grad


def test_without_config_json_a_bare_encoder_is_read_as_the_vit_whose_names_it_has(
    hf: ModuleType, randomise: Randomise, tmp_path: Path
) -> None:
    randomise(hf.ViTMAEModel(config_of(hf))).save_pretrained(tmp_path)
    found = open_checkpoint(tmp_path / "model.safetensors", heads=3).card.model
    assert found.position == Learned1D()  # type: ignore[union-attr]
    assert structure(found) == structure(OURS) | {key: structure(found)[key] for key in ("activation", "epsilon")}


def test_a_mean_of_patches_is_nothing_that_transformers_encoder_ends_with(tmp_path: Path) -> None:
    for norm, said in {"before": "anything but a class token, its pool", "after": "no place for pool.norm"}.items():
        with pytest.raises(ModelError, match=said):
            written(build(replace(OURS, pool=Mean(norm=norm))), tmp_path / "folder")  # type: ignore[arg-type]


def test_a_fine_tuned_encoder_is_a_vit_there(
    hf: ModuleType, randomise: Randomise, difference: Difference, tmp_path: Path
) -> None:
    ours = randomise(build(replace(OURS, classes=7)))
    theirs = hf.ViTForImageClassification.from_pretrained(written(ours, tmp_path / "folder")).eval()
    assert difference(theirs(pictures()).logits, ours(pictures())) <= CLOSE
