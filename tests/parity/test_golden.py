"""Stored outputs of the reference implementations, made once with random weights: our models give the same numbers."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

import patchwords
from patchwords.layers.pool import ClassToken
from patchwords.layers.position import Fixed1D, SinCos2D
from patchwords.ops.resampling import Convention, resample_table
from patchwords.weights import files
from patchwords.weights.checkpoint import open_checkpoint
from patchwords.weights.convert import convert

Difference = Callable[[Tensor, Tensor], float]

LOGITS, TOKENS, DOUBLE = 2e-5, 1e-4, 1e-9  # what the references' own rounding allows
RESIZED_DOUBLE = 1e-6  # there a table was resampled in float32

# The file of each case, and the heads where it does not say them.
CASES: dict[str, tuple[str, int | None]] = {
    "A1_official_token": ("params.npz", None),
    "A2_official_prelogits": ("params.npz", None),
    "A3_official_gap": ("params.npz", None),
    "A4_official_hybrid": ("params.npz", None),
    "A6_timm_vit": ("model.safetensors", 3),
    "A6_timm_deit_distilled": ("model.safetensors", 3),
    "A6_timm_beit": ("model.safetensors", None),
    "A6_timm_resnetv2_bit": ("model.safetensors", None),
    "A7_hf_vit": ("", None),
    "A7_hf_beit": ("", None),
    "A7_hf_deit_teacher": ("", None),
    "A8_torchvision_vit": ("model.safetensors", 3),
}
cases = pytest.mark.parametrize("case", CASES)
VITS = [case for case in CASES if "resnet" not in case]


class Case:
    """One stored case: its model, and its arrays as tensors in our layout."""

    def __init__(self, golden: Path, name: str):
        file, self.heads = CASES[name]
        self.path = golden / name / file
        with np.load(golden / name / "io.npz") as arrays:
            self.arrays = {key: torch.from_numpy(arrays[key]) for key in arrays.files}
        self.official = "official" in name
        self.model = patchwords.load(self.path, heads=self.heads).eval()

    def picture(self, name: str = "inputs") -> Tensor:
        x = self.arrays[name]
        return x.permute(0, 3, 1, 2) if self.official else x

    @property
    def images(self) -> Tensor:
        return self.picture("pixel_values" if "pixel_values" in self.arrays else "inputs")


@pytest.fixture
def open_case(golden: Path) -> Callable[[str], Case]:
    return lambda name: Case(golden, name)


@cases
def test_logits_are_the_references(case: str, open_case: Callable[[str], Case], difference: Difference) -> None:
    it = open_case(case)
    assert difference(it.model(it.images), it.arrays["logits"]) <= LOGITS


@cases
def test_logits_in_double_are_the_references_to_nine_digits(
    case: str, open_case: Callable[[str], Case], difference: Difference
) -> None:
    it = open_case(case)
    assert difference(it.model.double()(it.images.double()), it.arrays["logits_f64"]) <= DOUBLE


@pytest.mark.parametrize("case", [name for name in CASES if "official" in name])
def test_the_vector_before_the_head_is_the_references(
    case: str, open_case: Callable[[str], Case], difference: Difference
) -> None:
    it = open_case(case)
    assert difference(it.model.represent(it.images), it.arrays["pre_logits"]) <= LOGITS


@pytest.mark.parametrize(
    "case", ["A1_official_token", "A3_official_gap", "A4_official_hybrid", "A7_hf_vit", "A7_hf_beit"]
)
def test_the_embedded_sequence_is_the_references(
    case: str, open_case: Callable[[str], Case], difference: Difference
) -> None:
    it = open_case(case)
    wanted = it.arrays["tokens_in" if it.official else "hidden_0"]
    assert difference(it.model.embed(it.images).x, wanted) <= TOKENS


@pytest.mark.parametrize(
    "case", ["A1_official_token", "A3_official_gap", "A4_official_hybrid", "A6_timm_vit", "A7_hf_vit", "A7_hf_beit"]
)
def test_the_sequence_after_every_block_is_the_references(
    case: str, open_case: Callable[[str], Case], difference: Difference
) -> None:
    it = open_case(case)
    names = "hidden_{}" if "_hf_" in case else "block_{}_out"
    first = 1 if "_hf_" in case else 0
    traced = list(it.model.encoder.trace(it.model.embed(it.images)))
    assert len(traced) == it.model.config.depth
    for layer, tokens in enumerate(traced):
        assert difference(tokens.x, it.arrays[names.format(layer + first)]) <= TOKENS


@pytest.mark.parametrize("case", ["A1_official_token", "A3_official_gap", "A4_official_hybrid", "A7_hf_vit"])
def test_the_attention_weights_are_the_references(
    case: str, open_case: Callable[[str], Case], difference: Difference
) -> None:
    it = open_case(case)
    layers = range(1, it.model.config.depth + 1)
    for layer, weights in zip(layers, it.model.attention(it.images, layers), strict=True):
        assert difference(weights, it.arrays[f"attn_{layer - 1}"]) <= LOGITS


@pytest.mark.parametrize(
    ("case", "name"),
    [
        ("A1_official_token", "encoded"),
        ("A3_official_gap", "encoded"),
        ("A4_official_hybrid", "encoded"),
        ("A6_timm_vit", "features"),
        ("A6_timm_beit", "features"),
    ],
)
def test_the_encoders_output_is_the_references(
    case: str, name: str, open_case: Callable[[str], Case], difference: Difference
) -> None:
    it = open_case(case)
    assert difference(it.model.encoder(it.model.embed(it.images)).x, it.arrays[name]) <= TOKENS


def test_a_hybrids_feature_map_and_patches_are_the_references(
    open_case: Callable[[str], Case], difference: Difference
) -> None:
    it = open_case("A4_official_hybrid")
    assert difference(it.model.embed.stem(it.images), it.picture("resnet_out")) <= TOKENS
    patches, grid = it.model.embed.project(it.images)
    assert difference(patches.mT.unflatten(2, grid), it.picture("embedding_out")) <= TOKENS


def test_a_bit_resnets_last_map_is_the_references(open_case: Callable[[str], Case], difference: Difference) -> None:
    it = open_case("A6_timm_resnetv2_bit")
    (last,) = it.model.features(it.images, [len(it.model.config.units)])
    assert difference(it.model.norm(last), it.arrays["features"]) <= TOKENS


@pytest.mark.parametrize("case", ["A6_timm_deit_distilled", "A7_hf_deit_teacher"])
def test_both_classifiers_of_a_distilled_model_say_what_the_references_do(
    case: str, open_case: Callable[[str], Case], difference: Difference
) -> None:
    it = open_case(case)
    for found, name in zip(it.model.pair(it.images), ("logits_cls", "logits_dist"), strict=True):
        assert difference(found, it.arrays[name]) <= LOGITS
    assert difference(it.arrays["logits_cls"], it.arrays["logits_dist"]) > 100 * LOGITS


@pytest.mark.parametrize("side", [3, 4, 6, 9])
def test_positions_resized_the_papers_way_are_the_official_ones(
    side: int, golden: Path, difference: Difference
) -> None:
    with np.load(golden / "A5_official_posemb_resize" / "io.npz") as arrays:
        stored = {key: torch.from_numpy(arrays[key]) for key in arrays.files}
    place = f"{side}x{side}"
    assert difference(resample_table(stored["table"], (4, 4), (side, side)), stored[f"table_{place}"]) <= 1e-7
    model = patchwords.load(golden / "A1_official_token" / "params.npz", image=4 * side).eval()
    assert difference(model.embed.position.table, stored[f"table_{place}"]) <= 1e-7
    images = stored[f"inputs_{place}"].permute(0, 3, 1, 2)
    assert difference(model(images), stored[f"logits_{place}"]) <= LOGITS
    double = difference(model.double()(images.double()), stored[f"logits_{place}_f64"])
    assert double <= (DOUBLE if side == 4 else RESIZED_DOUBLE)


@pytest.mark.parametrize(
    ("case", "convention", "places"),
    [
        ("A6_timm_vit", "bicubic-antialias", ["3x3", "6x6", "3x5"]),
        ("A8_torchvision_vit", "torchvision", ["3x3", "6x6"]),
    ],
)
def test_positions_resized_another_librarys_way_are_its_own(
    case: str, convention: Convention, places: list[str], golden: Path, difference: Difference
) -> None:
    with np.load(golden / case / "posembed_resize.npz") as arrays:
        assert sorted(arrays.files) == sorted(["table", *(f"table_{place}" for place in places)])
        for place in places:
            rows, cols = map(int, place.split("x"))
            wanted = torch.from_numpy(arrays[f"table_{place}"])
            resized = resample_table(torch.from_numpy(arrays["table"]), (4, 4), (rows, cols), convention)
            assert difference(resized, wanted) <= 1e-6
            image = (4 * rows, 4 * cols)
            model = patchwords.load(golden / case / CASES[case][0], heads=3, image=image, positions=convention)
            assert difference(model.embed.position.table, wanted) <= 1e-6


def test_positions_loaded_bicubic_are_those_transformers_makes_as_it_runs(
    open_case: Callable[[str], Case], difference: Difference
) -> None:
    it = open_case("A7_hf_vit")
    images = it.arrays["inputs_interp"]
    model = patchwords.load(it.path, image=24, positions="bicubic").eval()
    assert difference(model(images), it.arrays["logits_interp"]) <= LOGITS
    assert difference(model.double()(images.double()), it.arrays["logits_interp_f64"]) <= RESIZED_DOUBLE


def test_the_wrong_way_to_resize_shows(open_case: Callable[[str], Case], difference: Difference) -> None:
    it = open_case("A7_hf_vit")
    model = patchwords.load(it.path, image=24, positions="paper").eval()
    assert difference(model(it.arrays["inputs_interp"]), it.arrays["logits_interp"]) > 100 * LOGITS


@pytest.mark.parametrize(("name", "width"), [("sincos_encoder", 48), ("sincos_decoder", 32)])
def test_maes_fixed_table_is_the_official_one(name: str, width: int, golden: Path, difference: Difference) -> None:
    with np.load(golden / "A7_hf_mae" / "sincos.npz") as arrays:
        stored = torch.from_numpy(arrays[name])
    assert not stored[:, 0].any()  # the class row
    table = SinCos2D(law="mae").build(width, (4, 4), ("class",)).table
    assert difference(table.double(), stored[:, 1:].double()) <= 1e-6
    kept = Fixed1D().build(width, (4, 4), ("class",)).table
    assert difference(kept.double(), stored.double()) <= 1e-6
    other = SinCos2D(law="big_vision").build(width, (4, 4), ("class",)).table
    assert difference(other, stored[:, 1:].float()) > 1e-2


@pytest.mark.parametrize("case", ["A7_hf_vit", "A7_hf_deit_teacher", "A7_hf_beit"])
def test_transformers_names_in_memory_are_read_like_those_of_its_files(
    case: str, open_case: Callable[[str], Case], golden: Path, tmp_path: Path
) -> None:
    it = open_case(case)
    memory = json.loads((golden / case / "names_v5.json").read_text(encoding="utf-8"))
    tensors = files.read(it.path).tensors
    assert memory.keys() == tensors.keys()
    assert any(theirs != name for theirs, name in memory.items())
    torch.save({memory[name]: tensor for name, tensor in tensors.items()}, tmp_path / "memory.pth")
    found = open_checkpoint(tmp_path / "memory.pth", heads=3)
    wanted = open_checkpoint(it.path)
    assert found.state.keys() == wanted.state.keys()
    assert all(torch.equal(found.state[name], wanted.state[name]) for name in wanted.state)


@pytest.mark.parametrize("names", ["files", "memory"])
def test_the_encoder_of_a_masked_autoencoder_is_read_and_its_decoder_left_out(
    names: str, golden: Path, tmp_path: Path
) -> None:
    folder = golden / "A7_hf_mae"
    tensors = files.read(folder).tensors
    if names == "memory":
        memory = json.loads((folder / "names_v5.json").read_text(encoding="utf-8"))
        torch.save({memory[name]: tensor for name, tensor in tensors.items()}, tmp_path / "memory.pth")
    found = open_checkpoint(folder) if names == "files" else open_checkpoint(tmp_path / "memory.pth", heads=3)
    config = found.card.model
    assert (config.position, config.pool, config.classes) == (Fixed1D(), ClassToken(), 0)
    assert torch.equal(found.state["embed.position.table"], tensors["vit.embeddings.position_embeddings"])
    assert sum("left out" in note and "decoder.decoder_embed.bias" in note for note in found.notes) == 1
    assert not patchwords.load(folder).embed.position.table.requires_grad


@cases
def test_a_references_file_written_again_is_the_same_file(case: str, golden: Path, tmp_path: Path) -> None:
    file, heads = CASES[case]
    path = golden / case / file
    checkpoint = open_checkpoint(path, heads=heads)
    written = tmp_path / (file or "folder")
    convert(checkpoint, written, checkpoint.format)
    found, wanted = files.read(written).tensors, files.read(path).tensors
    assert found.keys() == wanted.keys()
    for name, tensor in wanted.items():
        assert found[name].dtype == tensor.dtype
        assert torch.equal(found[name], tensor)


@cases
def test_a_references_file_gives_the_same_logits_from_a_native_file(
    case: str, open_case: Callable[[str], Case], tmp_path: Path
) -> None:
    it = open_case(case)
    convert(open_checkpoint(it.path, heads=it.heads), tmp_path / "native.safetensors", "native")
    again = patchwords.load(tmp_path / "native.safetensors").eval()
    assert torch.equal(again(it.images), it.model(it.images))
