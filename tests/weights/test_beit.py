"""BEiT's files: what their tensors tell, what stands beside the model in them, and other sizes."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

import patchwords
from patchwords.errors import ModelError
from patchwords.layers.pool import ClassToken, Mean
from patchwords.layers.position import RelativeBias
from patchwords.models.names import Config
from patchwords.models.vit import ViTConfig
from patchwords.ops.biases import resample_biases
from patchwords.weights import biases
from patchwords.weights.adapt import adapt
from patchwords.weights.checkpoint import Checkpoint, open_checkpoint
from patchwords.weights.convert import convert
from patchwords.weights.recognise import choose
from patchwords.weights.rules import give

State = dict[str, Tensor]
Open = Callable[..., Checkpoint]
Fill = Callable[[Config], State]

INDEX = torch.zeros(17, 17, dtype=torch.long)


@pytest.fixture
def beit(tiny: ViTConfig) -> ViTConfig:
    return replace(
        tiny, position=RelativeBias(), biases="qv", layer_scale=0.1, activation="gelu", pool=Mean(norm="after")
    )


@pytest.fixture
def pretrained(beit: ViTConfig) -> ViTConfig:
    """As BEiT leaves its pre-training: one table for all blocks, the norm on the sequence, no classes."""
    return replace(beit, position=RelativeBias(at="shared"), pool=ClassToken(), classes=0)


def in_timm(config: Config, state: State) -> State:
    return give(choose("timm", config).rules(3), state, "timm")


def test_the_tensors_have_timms_names(beit: ViTConfig, filled: Fill) -> None:
    names = set(in_timm(beit, filled(beit)))
    for name in ("qkv.weight", "q_bias", "v_bias", "relative_position_bias_table", "proj.weight", "proj.bias"):
        assert f"blocks.1.attn.{name}" in names
    assert {"cls_token", "patch_embed.proj.weight", "blocks.0.gamma_1", "blocks.0.gamma_2", "fc_norm.bias"} <= names
    assert not any("ls1" in name or "pos_embed" in name or "qkv.bias" in name or "rel_pos" in name for name in names)


def test_a_shared_table_has_its_own_name(pretrained: ViTConfig, filled: Fill) -> None:
    names = set(in_timm(pretrained, filled(pretrained)))
    assert {"rel_pos_bias.relative_position_bias_table", "norm.weight"} <= names
    assert not any(name.startswith("blocks") and "relative_position" in name for name in names)


@pytest.mark.parametrize("heads", [3, 6])
def test_heads_are_the_columns_of_a_table(heads: int, beit: ViTConfig, checkpoint: Open, tmp_path: Path) -> None:
    config = replace(beit, heads=heads)
    assert convert(checkpoint(config), tmp_path / "f.safetensors", "timm") == []
    assert patchwords.load(tmp_path / "f.safetensors").config.heads == heads


def test_other_heads_than_the_table_has_are_refused(beit: ViTConfig, checkpoint: Open, tmp_path: Path) -> None:
    convert(checkpoint(beit), tmp_path / "f.safetensors", "timm")
    with pytest.raises(ModelError, match=r"offsets.table is 52x3 in the file and 52x4 in the model"):
        patchwords.load(tmp_path / "f.safetensors", heads=4)


def test_an_oblong_grid_must_be_told(beit: ViTConfig, checkpoint: Open, tmp_path: Path) -> None:
    config = replace(beit, image=(8, 24))
    notes = convert(checkpoint(config), tmp_path / "f.safetensors", "timm")
    assert notes == ["it must be read with trained_at=(8, 24)"]
    with pytest.raises(ModelError, match=r"36 rows with 1 special tokens is for no picture of equal sides.*trained_at"):
        patchwords.load(tmp_path / "f.safetensors")
    with pytest.raises(ModelError, match="is for no picture of 16x16"):
        patchwords.load(tmp_path / "f.safetensors", trained_at=16)
    for size in [(8, 24), (24, 8)]:  # as many offsets: the caller knows
        assert patchwords.load(tmp_path / "f.safetensors", trained_at=size).config.image == size
    assert patchwords.load(tmp_path / "f.safetensors", image=(8, 24)).config.image == (8, 24)


@pytest.mark.parametrize("wrapped", [False, True])
def test_buffers_and_what_serves_pre_training_are_left_out_and_said(
    wrapped: bool, pretrained: ViTConfig, filled: Fill, tmp_path: Path
) -> None:
    state = filled(pretrained)
    tensors = in_timm(pretrained, state)
    beside = {
        "mask_token": torch.zeros(1, 1, 48),
        "lm_head.weight": torch.zeros(32, 48),
        "lm_head.bias": torch.zeros(32),
    }
    beside |= {"rel_pos_bias.relative_position_index": INDEX}
    torch.save({"model": tensors | beside} if wrapped else tensors | beside, tmp_path / "f.pth")
    found = open_checkpoint(tmp_path / "f.pth")
    assert found.card.model == replace(pretrained, layer_scale=1.0)
    assert found.state.keys() == state.keys()
    assert all(torch.equal(found.state[name], state[name]) for name in state)
    assert any(all(name in note for name in beside) for note in found.notes)


def test_old_fine_tuned_files_carry_an_index_and_some_a_bias_of_keys(
    beit: ViTConfig, filled: Fill, tmp_path: Path
) -> None:
    state = filled(beit)
    tensors = in_timm(beit, state)
    tensors |= {f"blocks.{i}.attn.relative_position_index": INDEX for i in range(2)}
    tensors |= {f"blocks.{i}.attn.k_bias": torch.zeros(48) for i in range(2)}
    torch.save(tensors, tmp_path / "f.pth")
    found = open_checkpoint(tmp_path / "f.pth")
    assert found.state.keys() == state.keys()
    assert found.card.model.position == RelativeBias()


def test_tables_for_every_block_and_one_for_all_are_refused_together(
    beit: ViTConfig, pretrained: ViTConfig, filled: Fill, tmp_path: Path
) -> None:
    table = {"rel_pos_bias.relative_position_bias_table": torch.zeros(52, 3)}
    torch.save(in_timm(beit, filled(beit)) | table, tmp_path / "f.pth")
    with pytest.raises(ModelError, match=r"not in the model: encoder.position.bias.table"):
        open_checkpoint(tmp_path / "f.pth")


def test_positions_and_biases_are_refused_together(beit: ViTConfig, filled: Fill, tmp_path: Path) -> None:
    torch.save(in_timm(beit, filled(beit)) | {"pos_embed": torch.zeros(1, 17, 48)}, tmp_path / "f.pth")
    with pytest.raises(ModelError, match=r"positions and biases for offsets .* not in the model: embed.position.table"):
        open_checkpoint(tmp_path / "f.pth")


@pytest.mark.parametrize("at", ["every", "shared"])
@pytest.mark.parametrize(
    ("old", "new"), [((16, 16), (24, 24)), ((24, 24), (16, 16)), ((8, 20), (20, 8)), ((16, 24), (16, 32))], ids=str
)
def test_biases_are_resampled_by_beits_rule_even_where_their_number_stays(
    old: tuple[int, int], new: tuple[int, int], at: str, beit: ViTConfig, filled: Fill
) -> None:
    before = replace(beit, image=old, position=RelativeBias(at=at))
    after = replace(before, image=new)
    state = filled(before)
    found = adapt(state, before, after)
    for name, tensor in state.items():
        wanted = resample_biases(tensor, before.grid, after.grid) if name.endswith("table") else tensor
        assert torch.equal(found[name], wanted), name
    assert any(not torch.equal(found[name][:-3], state[name][:-3]) for name in state if name.endswith("table"))


def test_a_file_loads_at_another_size_patch_and_number_of_channels(
    beit: ViTConfig, checkpoint: Open, tmp_path: Path
) -> None:
    convert(checkpoint(beit), tmp_path / "f.safetensors", "timm")
    model = patchwords.load(tmp_path / "f.safetensors", image=(48, 24), patch=8, channels=1, classes=2)
    assert model.config.grid == (6, 3)
    assert model.encoder.blocks[0].attention.offsets.table.shape == (11 * 5 + 3, 3)
    assert model(torch.zeros(1, 1, 48, 24)).shape == (1, 2)


def test_the_table_of_all_blocks_becomes_that_of_each(beit: ViTConfig, pretrained: ViTConfig, filled: Fill) -> None:
    state = filled(pretrained)
    found = biases.spread(state, replace(pretrained, position=RelativeBias()))
    model = replace(pretrained, position=RelativeBias()).build().eval()
    model.load_state_dict(found)
    shared = pretrained.build().eval()
    shared.load_state_dict(state)
    x = torch.randn(2, 3, 16, 16)
    torch.testing.assert_close(model(x), shared(x))
    tables = [found[f"encoder.blocks.{i}.attention.offsets.table"] for i in range(2)]
    assert tables[0].data_ptr() != tables[1].data_ptr()


def test_other_weights_are_not_spread(beit: ViTConfig, pretrained: ViTConfig, tiny: ViTConfig, filled: Fill) -> None:
    for config in (beit, pretrained, tiny):
        state = filled(config)
        assert biases.spread(state, config).keys() == state.keys()
