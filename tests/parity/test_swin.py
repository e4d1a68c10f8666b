"""Swin beside timm, torchvision (stored outputs) and transformers (stored, and live with random weights)."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

import patchwords
from patchwords.errors import ModelError
from patchwords.models.build import build
from patchwords.models.swin import Swin, SwinConfig
from patchwords.weights.card import Card
from patchwords.weights.checkpoint import Checkpoint, open_checkpoint
from patchwords.weights.convert import convert

Randomise = Callable[[nn.Module], nn.Module]
Difference = Callable[[Tensor, Tensor], float]

LOGITS, TOKENS, DOUBLE = 2e-5, 1e-4, 1e-9

CASES = {"A6_timm_swin": "model.safetensors", "A7_hf_swin": "", "A8_torchvision_swin": "model.safetensors"}
cases = pytest.mark.parametrize("case", CASES)
OURS = SwinConfig(depths=(2, 2), heads=(2, 4), width=24, window=(4, 4), patch=(2, 2), image=(32, 32), classes=7)


def arrays_of(golden: Path, case: str) -> dict[str, Tensor]:
    with np.load(golden / case / "io.npz") as arrays:
        return {key: torch.from_numpy(arrays[key]) for key in arrays.files}


def opened(golden: Path, case: str) -> tuple[Any, dict[str, Tensor], Tensor]:
    """A stored case: its model, its arrays, its pictures."""
    model = patchwords.load(golden / case / CASES[case], trained_at=32).eval()
    arrays = arrays_of(golden, case)
    return model, arrays, arrays["pixel_values" if "pixel_values" in arrays else "inputs"]


# Stored.


@cases
def test_logits_are_the_references(case: str, golden: Path, difference: Difference) -> None:
    model, arrays, images = opened(golden, case)
    assert model.config == OURS
    assert difference(model(images), arrays["logits"]) <= LOGITS
    assert difference(model.double()(images.double()), arrays["logits_f64"]) <= DOUBLE


def test_the_last_map_is_timms(golden: Path, difference: Difference) -> None:
    model, arrays, images = opened(golden, "A6_timm_swin")
    assert difference(model.maps(images), arrays["features"]) <= TOKENS


def test_the_maps_between_are_those_of_transformers(golden: Path, difference: Difference) -> None:
    """There the map of a stage is given after it was merged for the next."""
    model, arrays, images = opened(golden, "A7_hf_swin")
    first, second = model.features(images, at=[1, 2])
    merged = model.stages[1].merge(first.permute(0, 2, 3, 1))
    assert difference(model.embed(images).flatten(1, 2), arrays["hidden_0"]) <= TOKENS
    assert difference(merged.flatten(1, 2), arrays["hidden_1"]) <= TOKENS
    assert difference(second.flatten(2).mT, arrays["hidden_2"]) <= TOKENS


@cases
def test_a_stored_file_comes_back_bit_for_bit(case: str, golden: Path, tmp_path: Path) -> None:
    checkpoint = open_checkpoint(golden / case / CASES[case], image=(32, 32))
    name = tmp_path / "back" if case == "A7_hf_swin" else tmp_path / "back.safetensors"
    convert(checkpoint, name, checkpoint.format)
    before = load_file(golden / case / "model.safetensors")
    after = load_file(name / "model.safetensors" if name.is_dir() else name)
    assert before.keys() == after.keys()
    assert all(torch.equal(before[key], after[key]) and before[key].dtype == after[key].dtype for key in before)


def test_the_names_of_transformers_in_memory_are_read(golden: Path, tmp_path: Path, difference: Difference) -> None:
    names = json.loads((golden / "A7_hf_swin" / "names_v5.json").read_text())
    state = load_file(golden / "A7_hf_swin" / "model.safetensors")
    torch.save({names[key]: tensor for key, tensor in state.items()}, tmp_path / "memory.bin")
    arrays = arrays_of(golden, "A7_hf_swin")
    model = patchwords.load(tmp_path / "memory.bin").eval()
    assert difference(model(arrays["pixel_values"]), arrays["logits"]) <= LOGITS


# Live.

SIZES: dict[str, dict[str, Any]] = {
    "plain": {"embed_dim": 16, "depths": [2, 2], "num_heads": [2, 4], "window_size": 4, "image_size": 32}
    | {"patch_size": 2, "num_labels": 7},
    "three stages, another mlp, tanh": {"embed_dim": 8, "depths": [1, 2, 3], "num_heads": [1, 2, 2], "window_size": 2}
    | {"image_size": 32, "patch_size": 4, "num_labels": 3, "mlp_ratio": 2.0, "hidden_act": "gelu_pytorch_tanh"},
    "grey, oblong, no bias": {"embed_dim": 8, "depths": [2, 1], "num_heads": [2, 4], "window_size": 2}
    | {"image_size": [16, 32], "patch_size": 4, "num_labels": 5, "num_channels": 1, "qkv_bias": False},
    "maps that the window does not divide": {"embed_dim": 16, "depths": [2, 2], "num_heads": [2, 2]}
    | {"window_size": 3, "image_size": [28, 36], "patch_size": 4, "num_labels": 4},
    "odd maps": {"embed_dim": 8, "depths": [2, 2, 2], "num_heads": [1, 2, 4], "window_size": 2, "image_size": [36, 44]}
    | {"patch_size": 4, "num_labels": 4},
}
live = pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)


def pictures(sizes: dict[str, Any]) -> Tensor:
    size = sizes["image_size"]
    height, width = (size, size) if isinstance(size, int) else size
    noise = torch.rand(2, sizes.get("num_channels", 3), height, width, generator=torch.Generator().manual_seed(1))
    return 2 * noise - 1


@live
def test_a_swin_of_transformers_gives_the_same_logits_here(
    sizes: dict[str, Any], hf: ModuleType, randomise: Randomise, difference: Difference, tmp_path: Path
) -> None:
    theirs = randomise(hf.SwinForImageClassification(hf.SwinConfig(**sizes)))
    theirs.save_pretrained(tmp_path)
    ours = patchwords.load(tmp_path).eval()
    assert ours.config.heads == tuple(sizes["num_heads"])
    assert ours.config.window == (sizes["window_size"],) * 2
    assert difference(ours(pictures(sizes)), theirs(pictures(sizes)).logits) <= LOGITS


@live
def test_a_bare_swin_of_transformers_gives_its_pooled_vector_here(
    sizes: dict[str, Any], hf: ModuleType, randomise: Randomise, difference: Difference, tmp_path: Path
) -> None:
    theirs = randomise(hf.SwinModel(hf.SwinConfig(**sizes)))
    theirs.save_pretrained(tmp_path)
    ours = patchwords.load(tmp_path).eval()
    assert ours.config.classes == 0
    assert difference(ours(pictures(sizes)), theirs(pictures(sizes)).pooler_output) <= LOGITS
    torch.save(theirs.state_dict(), tmp_path / "memory.bin")  # version 5's names, without config.json
    again = patchwords.load(tmp_path / "memory.bin", trained_at=ours.config.image)
    assert all(torch.equal(x, ours.state_dict()[name]) for name, x in again.state_dict().items())


@live
def test_ours_gives_the_same_logits_in_transformers(
    sizes: dict[str, Any], hf: ModuleType, randomise: Randomise, difference: Difference, tmp_path: Path
) -> None:
    (tmp_path / "theirs").mkdir()
    hf.SwinForImageClassification(hf.SwinConfig(**sizes)).save_pretrained(tmp_path / "theirs")
    ours = randomise(patchwords.load(tmp_path / "theirs"))
    names = tuple(f"kind {i}" for i in range(ours.config.classes))
    checkpoint = Checkpoint(Card(model=ours.config, classes=names), dict(ours.state_dict()), "native")
    assert convert(checkpoint, tmp_path / "ours", "huggingface") == []
    theirs, said = hf.SwinForImageClassification.from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert {name: list(keys) for name, keys in said.items() if keys} == {}
    assert theirs.config.id2label[1] == "kind 1"
    assert difference(ours.eval()(pictures(sizes)), theirs.eval()(pictures(sizes)).logits) <= LOGITS
    back = open_checkpoint(tmp_path / "ours")
    assert back.card.model == ours.config
    assert all(torch.equal(back.state[name], tensor) for name, tensor in ours.state_dict().items())


def test_a_larger_picture_than_it_was_made_for_is_seen_as_transformers_sees_it(
    hf: ModuleType, randomise: Randomise, difference: Difference, tmp_path: Path
) -> None:
    theirs = randomise(hf.SwinForImageClassification(hf.SwinConfig(**SIZES["plain"])))
    theirs.save_pretrained(tmp_path)
    ours = patchwords.load(tmp_path).eval()
    images = torch.rand(2, 3, 44, 36)  # maps of 22x18 and 11x9, windows of 4
    assert difference(ours(images), theirs(images).logits) <= LOGITS


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"use_absolute_embeddings": True}, "config.json asks for use_absolute_embeddings = True"),
        ({"layer_norm_eps": 1e-6}, "config.json asks for layer_norm_eps = 1e-06"),
        ({"window_size": 8}, "config.json says window_size = 8, the weights are of 4"),
        ({"num_heads": [4, 4]}, r"config.json says num_heads = \[4, 4\], the weights are of \[2, 4\]"),
        ({"image_size": 8}, "are for no square window on pictures of 8x8"),
        ({"hidden_act": "relu"}, "config.json asks for 'relu'"),
    ],
)
def test_a_config_that_speaks_of_another_swin_is_refused(
    changes: dict[str, Any], sentence: str, randomise: Randomise, tmp_path: Path
) -> None:
    ours = randomise(build(replace(OURS, width=16)))
    convert(Checkpoint(Card(model=ours.config), dict(ours.state_dict()), "native"), tmp_path / "a", "huggingface")
    table = json.loads((tmp_path / "a" / "config.json").read_text())
    (tmp_path / "a" / "config.json").write_text(json.dumps(table | changes))
    with pytest.raises(ModelError, match=sentence):
        patchwords.load(tmp_path / "a")


def test_swin_t_is_as_large_as_transformers_own(hf: ModuleType) -> None:
    with torch.device("meta"):
        theirs = hf.SwinForImageClassification(hf.SwinConfig(num_labels=1000))
        ours = build("Swin-T")
    assert isinstance(ours, Swin)
    sizes = sorted(tuple(parameter.shape) for parameter in theirs.parameters())
    assert sum(np.prod(shape) for shape in sizes) == sum(p.numel() for p in ours.parameters())


def test_a_map_along_which_transformers_moves_no_window_is_refused_both_ways(
    hf: ModuleType, randomise: Randomise, tmp_path: Path
) -> None:
    """There no window moves at all where one side of the map is a single window; here the other side's do."""
    sizes = SIZES["plain"] | {"image_size": [32, 16]}  # maps of 16x8 and 8x4, windows of 4
    randomise(hf.SwinForImageClassification(hf.SwinConfig(**sizes))).save_pretrained(tmp_path)
    with pytest.raises(ModelError, match="a map that is one window high and several wide"):
        patchwords.load(tmp_path)
    ours = build(replace(OURS, image=(32, 16)))
    with pytest.raises(ModelError, match="a map that is one window high and several wide"):
        convert(Checkpoint(Card(model=ours.config), dict(ours.state_dict()), "native"), tmp_path / "a", "huggingface")
