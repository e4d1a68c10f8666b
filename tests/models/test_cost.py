"""Costs are counted, not estimated: parameters and multiply-adds are those of the real model."""

import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from patchwords.layers import attention as attention_layer
from patchwords.layers import pool as pool_layer
from patchwords.layers.bottleneck import POST, PRE, PostUnit, PreUnit
from patchwords.layers.mlp import MLP
from patchwords.models.cost import _likeness, cost
from patchwords.models.names import Config, read
from patchwords.ops.attention import weights


def plain_attention(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None = None, dropout: float = 0.0) -> Tensor:
    """Two matrix products that the counter can see on any device."""
    return weights(q, k, bias) @ v


def test_parameters_and_multiply_adds_are_those_of_the_model_when_it_runs(
    small_config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = cost(small_config)
    model = small_config.build().eval().requires_grad_(False)
    monkeypatch.setattr(attention_layer, "attention", plain_attention)
    monkeypatch.setattr(pool_layer, "attention", plain_attention)
    with FlopCounterMode(display=False) as counter:
        model(torch.zeros(1, small_config.channels, *small_config.image))
    assert counted.parameters == sum(parameter.numel() for parameter in model.parameters())
    assert counted.macs == counter.get_total_flops() // 2


def test_the_rows_add_up_to_the_whole(small_config: Config) -> None:
    counted = cost(small_config)
    assert sum(row.parameters for row in counted.rows) == counted.parameters
    assert sum(row.macs for row in counted.rows) == counted.macs


def test_equal_layers_are_one_row() -> None:
    rows = {row.name: row for row in cost(read("ViT-B/16")).rows}
    assert list(rows) == [
        "embed.patch",
        "embed.special",
        "embed.position",
        "encoder.blocks.0…11",
        "encoder.norm",
        "head.classifier",
    ]
    blocks = rows["encoder.blocks.0…11"]
    assert (blocks.kind, blocks.times, blocks.output) == ("Block", 12, (197, 768))
    assert blocks.parameters == 12 * 7_087_872
    assert rows["embed.patch"].macs == 196 * 768 * 768
    assert rows["head.classifier"].macs == 768 * 1000


def test_layers_that_differ_are_rows_of_their_own() -> None:
    rows = cost(read("R26+ViT-S/32")).rows
    units = [row for row in rows if row.kind == "PostUnit"]
    assert [row.times for row in units] == [1] * 8  # the first of a stage and the second differ
    assert units[0].output == (256, 56, 56)
    assert units[-1].output == (2048, 7, 7)


@pytest.mark.parametrize("name", ["ViT-L/16", "DeiT-S/16-distilled", "MAE-B/16"])
def test_of_equal_layers_one_is_run(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run, seen = MLP.forward, []

    def counted(self: MLP, x: Tensor) -> Tensor:
        seen.append(x.shape)
        return run(self, x)

    monkeypatch.setattr(MLP, "forward", counted)
    cost(read(name))
    assert len(seen) == 1


def test_layers_are_alike_only_where_all_that_they_are_set_to_is() -> None:
    def unit(inputs: int = 64, middle: int = 32, stride: int = 1) -> PreUnit:
        return PreUnit(inputs, middle, stride, PRE)

    assert _likeness(unit()) == _likeness(unit())
    assert len({_likeness(each) for each in (unit(), unit(stride=2), unit(inputs=32), unit(middle=64))}) == 4
    assert _likeness(PostUnit(64, 32, 1, POST)) != _likeness(PostUnit(64, 32, 1, PRE))


def test_memory_is_in_bytes() -> None:
    assert cost(read("ViT-B/16")).memory == {
        "float32": 4 * 86_567_656,
        "bfloat16": 2 * 86_567_656,
        "training": 16 * 86_567_656,
    }


@pytest.mark.parametrize("small_config", ["plain", "sincos"], indirect=True)
def test_counting_uses_no_random_numbers(small_config: Config) -> None:
    before = torch.get_rng_state()
    cost(small_config)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_model_of_four_billion_parameters_is_counted_without_memory() -> None:
    assert cost(read("ViT-e/14")).parameters > 3_800_000_000
