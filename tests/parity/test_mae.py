"""Masked autoencoders: loss, prediction, mask and order are transformers', with stored weights and with random ones."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from patchwords.layers.position import Fixed1D
from patchwords.objectives.mae import MaskedAutoencoder
from patchwords.weights import autoencoder, files
from patchwords.weights.autoencoder import open_autoencoder

transformers = pytest.importorskip("transformers", reason="transformers is the reference of these tests")

Difference = Callable[[Tensor, Tensor], float]
Randomise = Callable[[nn.Module], nn.Module]

ALMOST, DOUBLE = 2e-5, 1e-9
CASES = ("A7_hf_mae", "A7_hf_mae_normpix")

# Sizes that are not the usual ones, each with another one changed.
LIVE: dict[str, dict[str, Any]] = {
    "pixels": {"norm_pix_loss": False},
    "normalised": {"norm_pix_loss": True},
    "half": {"mask_ratio": 0.5, "norm_pix_loss": True, "num_channels": 1},
    "no biases": {"qkv_bias": False, "hidden_act": "gelu_new", "layer_norm_eps": 1e-5},
    "patches of 8": {"patch_size": 8, "decoder_intermediate_size": 40, "decoder_num_hidden_layers": 3},
}


def reconstructed(objective: MaskedAutoencoder, images: Tensor, noise: Tensor) -> dict[str, Tensor]:
    given = {"image": images, "noise": noise}
    with torch.no_grad():
        prediction, mask, restore = objective.reconstruct(given)
        loss, _ = objective(given)
    return {"pred": prediction, "mask": mask, "ids_restore": restore, "loss": loss}


@pytest.mark.parametrize("case", CASES)
def test_stored_losses_predictions_masks_and_orders_are_ours(case: str, golden: Path, difference: Difference) -> None:
    with np.load(golden / case / "io.npz") as arrays:
        stored = {key: torch.from_numpy(np.asarray(arrays[key])) for key in arrays.files}
    objective = open_autoencoder(golden / case).build()
    found = reconstructed(objective, stored["pixel_values"], stored["noise"])
    assert torch.equal(found["mask"], stored["mask"].float())
    assert torch.equal(found["ids_restore"], stored["ids_restore"])
    assert difference(found["pred"], stored["pred"]) <= ALMOST
    assert difference(found["loss"], stored["loss"]) <= ALMOST


@pytest.mark.parametrize("case", CASES)
def test_stored_weights_by_their_names_in_memory_are_the_same(case: str, golden: Path, tmp_path: Path) -> None:
    names = json.loads((golden / case / "names_v5.json").read_text("utf-8"))
    contents = files.read(golden / case)
    state = {names[name]: tensor for name, tensor in contents.tensors.items()}
    files.write_folder(tmp_path / "memory", contents.sidecars, state)
    hub, memory = open_autoencoder(golden / case), open_autoencoder(tmp_path / "memory")
    assert hub.settings == memory.settings
    for ours, theirs in ((hub.decoder, memory.decoder), (hub.checkpoint.state, memory.checkpoint.state)):
        assert ours.keys() == theirs.keys()
        assert all(torch.equal(ours[name], theirs[name]) for name in ours)


@pytest.mark.parametrize("case", CASES)
def test_our_fixed_tables_are_the_official_ones(case: str, golden: Path, difference: Difference) -> None:
    with np.load(golden / case / "sincos.npz") as arrays:
        for name, width in (("sincos_encoder", 48), ("sincos_decoder", 32)):
            table = Fixed1D().build(width, (4, 4), ("class",)).get_parameter("table")
            assert difference(table, torch.from_numpy(arrays[name])) <= 1e-6


def live(**given: Any) -> Any:
    sizes = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 40}
    decoder = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
    sizes |= {"image_size": 32, "patch_size": 4} | {f"decoder_{name}": size for name, size in decoder.items()}
    return transformers.ViTMAEForPreTraining(transformers.ViTMAEConfig(**sizes | given))


@pytest.mark.parametrize("name", LIVE)
def test_random_weights_of_any_size_give_the_same(
    name: str, randomise: Randomise, difference: Difference, tmp_path: Path
) -> None:
    theirs = randomise(live(**LIVE[name]))
    theirs.save_pretrained(tmp_path / "theirs")
    objective = open_autoencoder(tmp_path / "theirs").build()
    images = torch.rand(3, objective.model.config.channels, 32, 32) * 2 - 1
    noise = torch.rand(3, objective.patches)
    with torch.no_grad():
        wanted = theirs(images, noise=noise)
    found = reconstructed(objective, images, noise)
    assert torch.equal(found["mask"], wanted.mask)
    assert torch.equal(found["ids_restore"], wanted.ids_restore)
    assert difference(found["pred"], wanted.logits) <= ALMOST
    assert difference(found["loss"], wanted.loss) <= ALMOST


@pytest.mark.parametrize("name", LIVE)
def test_what_we_write_is_read_by_transformers_bit_for_bit(name: str, randomise: Randomise, tmp_path: Path) -> None:
    theirs = randomise(live(**LIVE[name]))
    theirs.save_pretrained(tmp_path / "theirs")
    assert autoencoder.write(open_autoencoder(tmp_path / "theirs"), tmp_path / "ours", "huggingface") == []
    again, told = transformers.ViTMAEForPreTraining.from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not any(told.values())
    state = theirs.state_dict()
    assert state.keys() == again.state_dict().keys()
    assert all(torch.equal(tensor, state[key]) for key, tensor in again.state_dict().items())
    same = ("mask_ratio", "norm_pix_loss", "layer_norm_eps", "hidden_act", "qkv_bias", "image_size", "patch_size")
    wanted = {key: getattr(theirs.config, key) for key in same}
    wanted["hidden_act"] = {"gelu_new": "gelu_pytorch_tanh"}.get(wanted["hidden_act"], wanted["hidden_act"])
    assert {key: getattr(again.config, key) for key in same} == wanted
