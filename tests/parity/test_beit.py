"""BEiT live beside transformers, with random weights and no network: its folders load here, ours there."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import patchwords
from patchwords.errors import ModelError
from patchwords.layers.pool import ClassToken, Mean
from patchwords.layers.position import Learned1D, NoPosition, RelativeBias
from patchwords.models.build import build
from patchwords.models.vit import ViTConfig
from patchwords.weights import files
from patchwords.weights.card import Card
from patchwords.weights.checkpoint import Checkpoint, open_checkpoint
from patchwords.weights.convert import convert

Randomise = Callable[[nn.Module], nn.Module]
Difference = Callable[[Tensor, Tensor], float]
Table = dict[str, Any]

CLOSE = 2e-5
SIZES: Table = {"hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 96}
SIZES |= {"image_size": 16, "patch_size": 4, "num_labels": 7, "vocab_size": 32}
EVERY, SHARED = {"use_relative_position_bias": True}, {"use_shared_relative_position_bias": True}
KINDS: dict[str, Table] = {
    "every": EVERY,
    "shared": SHARED,
    "absolute": {"use_absolute_position_embeddings": True},
    "none": {},
    "class token": EVERY | {"use_mean_pooling": False},
    "no layer scale": EVERY | {"layer_scale_init_value": 0.0},
    "grey, tanh and another epsilon": SHARED
    | {"num_channels": 1, "hidden_act": "gelu_pytorch_tanh", "layer_norm_eps": 1e-3, "image_size": 24},
}
kinds = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)

OURS = ViTConfig(
    depth=2,
    width=48,
    mlp=96,
    heads=3,
    patch=(4, 4),
    image=(16, 16),
    classes=7,
    position=RelativeBias(),
    biases="qv",
    activation="gelu",
    layer_scale=0.1,
    pool=Mean(norm="after"),
)
OWN: dict[str, ViTConfig] = {
    "every": OURS,
    "shared": replace(OURS, position=RelativeBias(at="shared")),
    "absolute": replace(OURS, position=Learned1D()),
    "none": replace(OURS, position=NoPosition(), image=(16, 24)),
    "class token": replace(OURS, pool=ClassToken()),
    "no layer scale, no classes": replace(OURS, layer_scale=None, classes=0),
    "grey, tanh and another epsilon": replace(OURS, channels=1, activation="gelu-tanh", epsilon=1e-3),
}


def pictures(image: tuple[int, int] = (16, 16), channels: int = 3) -> Tensor:
    return 2 * torch.rand(2, channels, *image, generator=torch.Generator().manual_seed(1)) - 1


def of_kind(kind: Table) -> Tensor:
    side = kind.get("image_size", 16)
    return pictures((side, side), kind.get("num_channels", 3))


def written(model: Any, folder: Path) -> Path:
    convert(Checkpoint(Card(model=model.config), dict(model.state_dict()), "native"), folder, "huggingface")
    return folder


@pytest.mark.parametrize(("case", "file"), [("A6_timm_beit", "model.safetensors"), ("A7_hf_beit", "")])
def test_the_stored_sequences_of_timm_and_transformers_are_ours(
    case: str, file: str, golden: Path, difference: Difference
) -> None:
    with np.load(golden / case / "io.npz") as arrays:
        stored = {key: torch.from_numpy(arrays[key]) for key in arrays.files}
    model = patchwords.load(golden / case / file).eval()
    x = model.embed(stored["pixel_values" if "pixel_values" in stored else "inputs"])
    traced = [x.x, *(tokens.x for tokens in model.encoder.trace(x))]
    names = ["features"] if "features" in stored else ["hidden_0", "hidden_1", "hidden_2"]
    for found, name in zip(traced[-len(names) :], names, strict=True):
        assert difference(found, stored[name]) <= CLOSE


@kinds
def test_a_beit_of_transformers_gives_the_same_logits_here(
    kind: Table, hf: ModuleType, randomise: Randomise, difference: Difference, tmp_path: Path
) -> None:
    theirs = randomise(hf.BeitForImageClassification(hf.BeitConfig(**SIZES | kind)))
    theirs.save_pretrained(tmp_path)
    ours = patchwords.load(tmp_path).eval()
    assert difference(ours(of_kind(kind)), theirs(of_kind(kind)).logits) <= CLOSE


@kinds
def test_a_bare_beit_of_transformers_gives_its_pooled_vector_and_its_sequence_here(
    kind: Table, hf: ModuleType, randomise: Randomise, difference: Difference, tmp_path: Path
) -> None:
    theirs = randomise(hf.BeitModel(hf.BeitConfig(**SIZES | kind)))
    theirs.save_pretrained(tmp_path)
    ours, x = patchwords.load(tmp_path).eval(), of_kind(kind)
    assert ours.config.classes == 0
    assert difference(ours(x), theirs(x).pooler_output) <= CLOSE
    assert difference(ours.encoder(ours.embed(x)).x, theirs(x).last_hidden_state) <= CLOSE


@pytest.mark.parametrize("kind", [EVERY, SHARED], ids=["every", "shared"])
def test_the_attention_weights_are_those_of_transformers(
    kind: Table, hf: ModuleType, randomise: Randomise, difference: Difference, tmp_path: Path
) -> None:
    theirs = randomise(hf.BeitModel(hf.BeitConfig(**SIZES | kind, attn_implementation="eager")))
    theirs.save_pretrained(tmp_path)
    ours = patchwords.load(tmp_path).eval()
    wanted = theirs(pictures(), output_attentions=True).attentions
    for found, weights in zip(ours.attention(pictures(), [1, 2]), wanted, strict=True):
        assert difference(found, weights) <= CLOSE


def test_of_a_beit_in_pre_training_the_encoder_is_read(
    hf: ModuleType, randomise: Randomise, difference: Difference, tmp_path: Path
) -> None:
    theirs = randomise(hf.BeitForMaskedImageModeling(hf.BeitConfig(**SIZES | SHARED, use_mask_token=True)))
    theirs.save_pretrained(tmp_path)
    ours, notes = patchwords.load(tmp_path).eval(), open_checkpoint(tmp_path).notes
    assert (ours.config.classes, ours.config.position) == (0, RelativeBias(at="shared"))
    assert any(
        all(name in note for name in ("beit.embeddings.mask_token", "lm_head.bias", "lm_head.weight")) for note in notes
    )
    wanted = theirs.layernorm(theirs.beit(pictures()).last_hidden_state)
    assert difference(ours.encoder(ours.embed(pictures())).x, wanted) <= CLOSE


@pytest.mark.parametrize("own", OWN.values(), ids=OWN)
def test_our_beit_gives_the_same_answer_in_transformers(
    own: ViTConfig, hf: ModuleType, randomise: Randomise, difference: Difference, tmp_path: Path
) -> None:
    ours = randomise(build(own))
    cls = hf.BeitForImageClassification if own.classes else hf.BeitModel
    theirs, said = cls.from_pretrained(written(ours, tmp_path / "folder"), output_loading_info=True)
    assert {name: list(keys) for name, keys in said.items() if keys} == {}
    x = pictures(own.image, own.channels)
    answer = theirs.eval()(x)
    assert difference(answer.logits if own.classes else answer.pooler_output, ours(x)) <= CLOSE


@kinds
def test_a_folder_of_transformers_written_again_holds_the_same_tensors(
    kind: Table, hf: ModuleType, randomise: Randomise, tmp_path: Path
) -> None:
    randomise(hf.BeitForImageClassification(hf.BeitConfig(**SIZES | kind))).save_pretrained(tmp_path / "theirs")
    convert(open_checkpoint(tmp_path / "theirs"), tmp_path / "again", "huggingface")
    found, wanted = files.read(tmp_path / "again").tensors, files.read(tmp_path / "theirs").tensors
    assert found.keys() == wanted.keys()
    assert all(torch.equal(found[name], wanted[name]) for name in wanted)
    assert patchwords.load(tmp_path / "again").config == patchwords.load(tmp_path / "theirs").config


@pytest.mark.parametrize("cls", ["BeitForImageClassification", "BeitModel"])
@kinds
def test_its_names_in_memory_are_read_like_those_of_its_files(
    kind: Table, cls: str, hf: ModuleType, randomise: Randomise, tmp_path: Path
) -> None:
    theirs = randomise(getattr(hf, cls)(hf.BeitConfig(**SIZES | kind)))
    theirs.save_pretrained(tmp_path / "folder")
    wanted = open_checkpoint(tmp_path / "folder")
    memory = tmp_path / "folder" / "memory"
    memory.mkdir()
    (memory / "config.json").write_bytes((tmp_path / "folder" / "config.json").read_bytes())
    torch.save(theirs.state_dict(), memory / "pytorch_model.bin")
    found = open_checkpoint(memory)
    assert found.card.model == wanted.card.model
    assert found.state.keys() == wanted.state.keys()
    assert all(torch.equal(found.state[name], wanted.state[name]) for name in wanted.state)


def test_a_layer_scale_is_carried_both_ways(hf: ModuleType, tmp_path: Path) -> None:
    hf.BeitForImageClassification(hf.BeitConfig(**SIZES | EVERY, layer_scale_init_value=1e-5)).save_pretrained(tmp_path)
    assert patchwords.load(tmp_path).config.layer_scale == 1e-5
    table = json.loads((written(build(OURS), tmp_path / "ours") / "config.json").read_text("utf-8"))
    assert table["layer_scale_init_value"] == 0.1


@pytest.mark.parametrize("kind", [EVERY, SHARED], ids=["every", "shared"])
def test_biases_on_oblong_pictures_which_transformers_reads_with_sides_exchanged_are_refused(
    kind: Table, hf: ModuleType, tmp_path: Path
) -> None:
    sizes = SIZES | kind | {"image_size": [16, 24]}
    hf.BeitForImageClassification(hf.BeitConfig(**sizes)).save_pretrained(tmp_path)
    with pytest.raises(ModelError, match="relative_position_bias on pictures of 16x24; only square ones are computed"):
        patchwords.load(tmp_path)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"hidden_act": "relu"}, "asks for 'relu'"),
        ({"use_relative_position_bias": False}, "use_relative_position_bias = False, the weights are of True"),
        ({"use_shared_relative_position_bias": True}, "use_shared_relative_position_bias = True, the weights"),
        ({"use_absolute_position_embeddings": True}, "use_absolute_position_embeddings = True, the weights"),
        ({"use_mean_pooling": False}, "use_mean_pooling = False, the weights are of True"),
        ({"layer_scale_init_value": 0.0}, "not in the model: encoder.blocks.0.scale1.weight"),
        ({"num_attention_heads": 4}, "the weights do not fit the model"),
        ({"hidden_size": 64}, "hidden_size = 64"),
    ],
    ids=str,
)
def test_a_config_json_that_asks_for_something_else_is_refused(changed: Table, sentence: str, tmp_path: Path) -> None:
    folder = written(build(OURS), tmp_path / "folder")
    table = json.loads((folder / "config.json").read_text("utf-8"))
    (folder / "config.json").write_text(json.dumps(table | changed), encoding="utf-8")
    with pytest.raises(ModelError, match=sentence):
        patchwords.load(folder)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"image": (16, 24)}, "pictures or patches that are not square"),
        ({"patch": (4, 8)}, "pictures or patches that are not square"),
        ({"biases": "none"}, "anything but biases for queries and values"),
        ({"special": ("class", "register")}, "no place for embed.special.register_token"),
        ({"position": Learned1D(over="patches")}, "positions for some tokens"),
        ({"pool": Mean()}, "cannot say pool.kind = mean"),
        ({"block": "stream-norm"}, "cannot say block = stream-norm"),
    ],
    ids=str,
)
def test_what_transformers_would_not_compute_is_refused_and_nothing_is_written(
    changes: Table, sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(ModelError, match=sentence):
        written(build(replace(OURS, **changes)), tmp_path / "folder")
    assert not (tmp_path / "folder").exists()
