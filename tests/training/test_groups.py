"""What decays, what learns more slowly, what is frozen."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from patchwords.errors import UsageError
from patchwords.layers.attention import Attention
from patchwords.layers.bias import Bias
from patchwords.layers.block import Block
from patchwords.layers.bottleneck import NormReLU
from patchwords.layers.mlp import MLP
from patchwords.layers.offsets import Offsets
from patchwords.layers.placing import Table1D, Table2D
from patchwords.layers.pool import AttendTokens
from patchwords.layers.residual import LayerScale
from patchwords.layers.tokens import Special
from patchwords.layers.window import WindowOffsets
from patchwords.models.build import build
from patchwords.models.model import Model
from patchwords.models.names import Config
from patchwords.training.groups import freeze, groups, layers

UNDECAYED = (nn.LayerNorm, nn.GroupNorm, NormReLU, Table1D, Table2D, Offsets, Bias, WindowOffsets, Special, LayerScale)


class Task(nn.Module):
    """An objective that owns a token and a decoder besides its model."""

    def __init__(self, model: Model):
        super().__init__()
        self.model = model
        self.mask_token = nn.Parameter(torch.zeros(1, 1, 8))
        self.decoder = nn.Linear(8, 8)


def no_offsets() -> nn.Module:
    return nn.Identity()


def by_name(module: nn.Module, decay: float = 0.1, layer_decay: float = 1.0) -> dict[str, tuple[float, float]]:
    """Decay and scale of every parameter that is in a group."""
    return {
        name: (group["weight_decay"], group["scale"])
        for group in groups(module, decay=decay, layer_decay=layer_decay)
        for name in group["names"]
    }


def test_biases_norms_positions_tokens_scales_probe_and_offsets_do_not_decay(small_config: Config) -> None:
    model = small_config.build()
    wanted = {}
    for path, module in model.named_modules():
        for name in (name for name, parameter in module.named_parameters(recurse=False) if parameter.requires_grad):
            free = isinstance(module, UNDECAYED) or name.endswith("bias")
            free = free or (isinstance(module, AttendTokens) and name == "probe")
            wanted[f"{path}.{name}"] = 0.0 if free else 0.1
    assert {name: decay for name, (decay, _) in by_name(model).items()} == wanted
    assert set(wanted.values()) == {0.0, 0.1}


def test_every_parameter_that_learns_is_in_one_group_beside_its_name(small_config: Config) -> None:
    model = small_config.build()
    learn = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
    found = groups(model, decay=0.1, layer_decay=0.5)
    pairs = [pair for group in found for pair in zip(group["names"], group["params"], strict=True)]
    assert sorted(name for name, _ in pairs) == sorted(learn)
    assert all(model.get_parameter(name) is parameter for name, parameter in pairs)


def test_without_layer_decay_there_are_two_groups(small_config: Config) -> None:
    found = groups(small_config.build(), decay=0.1, layer_decay=1.0)
    assert [(group["decays"], group["weight_decay"], group["scale"]) for group in found] == [
        (False, 0.0, 1.0),
        (True, 0.1, 1.0),
    ]


def test_rates_fall_from_the_head_to_the_embedding() -> None:
    rates = {name: scale for name, (_, scale) in by_name(build("ViT-Digits/2"), layer_decay=0.5).items()}
    assert {rate for name, rate in rates.items() if name.startswith("embed.")} == {0.5**5}
    for block in range(4):
        found = {rate for name, rate in rates.items() if name.startswith(f"encoder.blocks.{block}.")}
        assert found == {0.5 ** (4 - block)}
    assert {rate for name, rate in rates.items() if name.startswith(("encoder.norm.", "head."))} == {1.0}


def test_layers_go_up_with_the_forward_in_every_model(small_config: Config) -> None:
    model = small_config.build()
    places = layers(model)
    assert places.keys() == dict(model.named_parameters()).keys()
    in_order = [place for name, place in places.items() if not name.startswith("encoder.position.")]
    assert in_order == sorted(in_order)
    assert in_order[0] == 0
    assert set(range(max(in_order))) <= set(in_order)


def test_positions_that_the_encoder_adds_go_with_the_embedding(small_configs: dict[str, Config]) -> None:
    places = layers(small_configs["1d every"].build())
    assert {place for name, place in places.items() if name.startswith("encoder.position.")} == {0}


def test_biases_of_a_block_go_with_it_and_those_of_all_blocks_come_last(small_configs: dict[str, Config]) -> None:
    assert layers(small_configs["beit"].build())["encoder.blocks.1.attention.offsets.table"] == 2
    assert layers(small_configs["beit shared"].build())["encoder.position.bias.table"] == 3  # as BEiT's code has it


@pytest.mark.parametrize("name", ["beit", "beit shared"])
def test_biases_do_not_decay_and_the_matrix_of_queries_keys_and_values_does(
    name: str, small_configs: dict[str, Config]
) -> None:
    found = groups(small_configs[name].build(), decay=0.1, layer_decay=1.0)
    decaying = {member for group in found if group["decays"] for member in group["names"]}
    assert "encoder.blocks.0.attention.qkv.weight" in decaying
    assert not any(member.endswith(("table", "q_bias", "v_bias")) for member in decaying)


def test_the_bottlenecks_of_a_hybrid_are_layers_below_its_blocks(small_configs: dict[str, Config]) -> None:
    places = layers(small_configs["hybrid"].build())
    assert places["embed.stem.root.conv.weight"] == 0
    assert places["embed.stem.stages.0.units.0.conv1.weight"] == 1
    assert places["embed.stem.stages.1.units.0.conv1.weight"] == 3
    assert places["embed.patch.weight"] == places["embed.special.class_token"] == 3
    assert places["encoder.blocks.0.mlp.fc1.weight"] == 4
    assert places["encoder.blocks.1.mlp.fc1.weight"] == 5
    assert places["head.classifier.weight"] == 6


def test_both_halves_of_an_axial_block_are_one_layer(small_configs: dict[str, Config]) -> None:
    places = layers(small_configs["axial"].build())
    assert places["encoder.blocks.1.along_rows.mlp.fc1.weight"] == 2
    assert places["encoder.blocks.1.along_cols.mlp.fc1.weight"] == 2


def test_the_stages_of_a_resnet_are_layers(small_configs: dict[str, Config]) -> None:
    places = layers(small_configs["resnet pre"].build())
    assert places["root.conv.weight"] == 0
    assert places["stages.1.units.0.conv3.weight"] == 3
    assert places["norm.weight"] == places["head.classifier.bias"] == 4


def test_the_blocks_of_a_swin_are_layers_and_a_merging_goes_with_the_block_before_it(
    small_configs: dict[str, Config],
) -> None:
    places = layers(small_configs["swin"].build())
    assert places["embed.patch.weight"] == places["embed.norm.weight"] == 0
    assert places["stages.0.blocks.1.attention.offsets.table"] == places["stages.1.merge.reduction.weight"] == 2
    assert places["stages.1.blocks.1.mlp.fc2.weight"] == 4
    assert places["norm.weight"] == places["head.classifier.bias"] == 5


def test_what_an_objective_owns_learns_at_the_full_rate_and_its_token_does_not_decay() -> None:
    found = by_name(Task(build("ViT-Digits/2")), layer_decay=0.5)
    assert found["mask_token"] == found["decoder.bias"] == (0.0, 1.0)
    assert found["decoder.weight"] == found["model.head.classifier.weight"] == (0.1, 1.0)
    assert found["model.embed.patch.weight"] == (0.1, 0.5**5)


def test_units_of_an_objective_do_not_count_as_layers_of_its_model() -> None:
    task = Task(build("ViT-Digits/2"))
    mlp, attention = MLP(8, 8, "gelu", 0.0), Attention(8, 1, "qkv", no_offsets(), 0.0, 0.0)
    task.decoder_block = Block(attention, mlp, 1e-6, None, 0.0)
    places = layers(task)
    assert places["decoder_block.mlp.fc1.weight"] == places["model.head.classifier.weight"] == 5


def test_the_groups_hold_only_what_is_trained() -> None:
    model = build("ViT-Digits/2")
    freeze(model, "backbone")
    assert by_name(model) == {"head.classifier.weight": (0.1, 1.0), "head.classifier.bias": (0.0, 1.0)}


def trained(model: nn.Module) -> set[str]:
    return {name for name, parameter in model.named_parameters() if parameter.requires_grad}


def test_freezing_the_backbone_leaves_the_head(small_config: Config) -> None:
    model = replace(small_config, classes=3).build()
    freeze(model, "backbone")
    assert trained(model) == {name for name, _ in model.named_parameters() if name.startswith("head.")}
    assert trained(model)


def test_freezing_blocks_freezes_the_embedding_with_them() -> None:
    model = build("ViT-Digits/2")
    freeze(model, "blocks 3")
    assert {name.partition(".")[0] for name in trained(model)} == {"encoder", "head"}
    assert {name.split(".")[2] for name in trained(model) if name.startswith("encoder.blocks.")} == {"3"}
    assert "encoder.norm.weight" in trained(model)


@pytest.mark.parametrize("small_config", ["plain", "hybrid", "resnet post", "axial"], indirect=True)
@pytest.mark.parametrize("count", [0, 1, 2])
def test_freezing_blocks_is_freezing_layers(small_config: Config, count: int) -> None:
    model = small_config.build()
    freeze(model, f"blocks {count}")
    assert trained(model) == {name for name, place in layers(model).items() if place > count}


@pytest.mark.parametrize("what", ["", "backbone", "blocks 1"])
def test_a_fixed_table_never_learns_whatever_is_frozen(what: str, small_configs: dict[str, Config]) -> None:
    model = small_configs["fixed 1d"].build()
    freeze(model, what)
    assert "embed.position.table" not in by_name(model)
    assert not model.get_parameter("embed.position.table").requires_grad


def test_both_classifiers_of_a_distilled_model_are_its_head(small_configs: dict[str, Config]) -> None:
    model = small_configs["distilled"].build()
    freeze(model, "backbone")
    wanted = [f"head.{name}.{leaf}" for name in ("classifier", "teacher") for leaf in ("weight", "bias")]
    assert sorted(by_name(model)) == sorted(wanted)


def test_nothing_is_frozen_unless_asked() -> None:
    model = build("ViT-Digits/2")
    freeze(model, "")
    assert trained(model) == {name for name, _ in model.named_parameters()}


@pytest.mark.parametrize("what", ["head", "blocks", "blocks six", "blocks -1", "6", "Backbone"])
def test_what_cannot_be_frozen_is_refused(what: str) -> None:
    with pytest.raises(UsageError, match=f"freeze '{what}' is not known: write backbone, blocks 6"):
        freeze(build("ViT-Digits/2"), what)


def test_more_blocks_than_there_are_cannot_be_frozen() -> None:
    with pytest.raises(UsageError, match="'blocks 5' is more than there are: the model has 4"):
        freeze(build("ViT-Digits/2"), "blocks 5")


def test_a_model_without_classes_has_no_head_to_train(small_configs: dict[str, Config]) -> None:
    with pytest.raises(UsageError, match="the model has no classes"):
        freeze(small_configs["no classes"].build(), "backbone")


def test_a_model_that_is_frozen_whole_has_nothing_to_train() -> None:
    with pytest.raises(UsageError, match="nothing is left to train"):
        groups(build("ViT-Digits/2").requires_grad_(False), decay=0.1, layer_decay=1.0)
