"""The values that training starts from: those of the official code, where torch's own functions give others."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from patchwords.layers.attention import Attention, NoOffsets
from patchwords.layers.bottleneck import POST, PRE, PostUnit, PreUnit
from patchwords.layers.conv import Standardise, StandardisedConv
from patchwords.layers.embed import PatchProjection
from patchwords.layers.head import Linear, TanhMLP
from patchwords.layers.mlp import MLP
from patchwords.layers.pool import Attend, AttendTokens
from patchwords.layers.position import Learned1D, Learned2D, Relative
from patchwords.models.hybrid import ResNetStem
from patchwords.models.names import read
from patchwords.models.vit import ViTConfig

WIDTH = 384


def fills(matrix: Tensor, bound: float) -> bool:
    """Whether the values are uniform between -bound and bound."""
    largest, deviation = matrix.abs().max().item(), matrix.std().item()
    return 0.999 * bound < largest <= bound and math.isclose(deviation, bound / math.sqrt(3), rel_tol=0.01)


def is_truncated_normal(kernel: Tensor) -> bool:
    """Whether the variance is 1 / fan in within 2 %, and the law was cut at two deviations of what it was before."""
    fan_in = kernel[0].numel()
    cut = 2 / 0.87962566103423978 / math.sqrt(fan_in)
    largest = kernel.abs().max().item()
    return math.isclose(kernel.var().item(), 1 / fan_in, rel_tol=0.02) and 0.99 * cut < largest <= cut


@pytest.mark.parametrize("part", ["q", "k", "v"])
def test_q_k_and_v_each_fill_the_xavier_bound_of_their_own_matrix(part: str) -> None:
    attention = Attention(WIDTH, 6, "qkv", NoOffsets(), 0.0, 0.0)
    matrix = attention.qkv.weight.unflatten(0, (3, WIDTH))["qkv".index(part)]
    assert fills(matrix, math.sqrt(6 / (2 * WIDTH)))


def test_the_output_projection_fills_the_xavier_bound_and_biases_are_zero() -> None:
    attention = Attention(WIDTH, 6, "qkv", NoOffsets(), 0.0, 0.0)
    assert fills(attention.out.weight, math.sqrt(6 / (2 * WIDTH)))
    assert not attention.qkv.bias.any()
    assert not attention.out.bias.any()


def test_the_kernels_of_the_mlp_fill_the_xavier_bound_and_its_biases_have_deviation_1e_6() -> None:
    mlp = MLP(WIDTH, 8 * WIDTH, "gelu-tanh", 0.0)
    for layer in (mlp.fc1, mlp.fc2):
        assert fills(layer.weight, math.sqrt(6 / (9 * WIDTH)))
        assert math.isclose(layer.bias.std().item(), 1e-6, rel_tol=0.1)
        assert abs(layer.bias.mean().item()) < 2e-7


def test_the_patch_embedding_has_variance_one_over_fan_in_after_truncation_at_two_deviations() -> None:
    patch = PatchProjection(3, 768, (16, 16))
    assert is_truncated_normal(patch.weight)
    assert not patch.bias.any()


def test_pre_logits_and_standardised_convolutions_start_as_the_patch_embedding_does() -> None:
    assert is_truncated_normal(TanhMLP().build(WIDTH, 10).pre_logits.weight)
    assert is_truncated_normal(StandardisedConv(64, 128, 3, 1, "same", Standardise()).weight)


def test_class_token_and_head_start_at_zero() -> None:
    for head in (Linear(), TanhMLP()):
        model = replace(read("ViT-Mu/16"), head=head).build()
        assert not model.embed.special.class_token.any()
        assert not model.head.classifier.weight.any()
        assert not model.head.classifier.bias.any()


@pytest.mark.parametrize("bias", [0.0, -6.9, -10.0])
def test_the_bias_of_the_head_starts_where_it_is_told(bias: float) -> None:
    for head in (Linear(bias=bias), TanhMLP(bias=bias)):
        layer = head.build(8, 21).classifier
        torch.testing.assert_close(layer.bias, torch.full((21,), bias))
        assert not layer.weight.any()


def test_a_new_model_gives_every_class_the_same_logit() -> None:
    model = replace(read("ViT-Mu/16"), head=Linear(bias=-10.0), image=(32, 32)).build()
    torch.testing.assert_close(model(torch.randn(2, 3, 32, 32)), torch.full((2, 1000), -10.0), rtol=0, atol=0)


def test_position_tables_have_deviation_002_unless_told_otherwise() -> None:
    size = ViTConfig(depth=2, width=256, mlp=8, heads=2, patch=(8, 8))
    assert math.isclose(size.build().embed.position.table.std().item(), 0.02, rel_tol=0.02)
    wide = replace(size, position=Learned1D(std=1 / 16)).build()  # big_vision: 1 / sqrt(width)
    assert math.isclose(wide.embed.position.table.std().item(), 1 / 16, rel_tol=0.02)
    halves = replace(size, position=Learned2D(std=0.3)).build().embed.position
    assert all(math.isclose(half.std().item(), 0.3, rel_tol=0.05) for half in (halves.rows, halves.cols))
    offsets = replace(size, position=Relative(std=0.3)).build().encoder.blocks[1].attention.offsets
    assert math.isclose(offsets.table.std().item(), 0.3, rel_tol=0.02)


def test_tables_in_every_layer_start_apart() -> None:
    model = replace(read("ViT-Mu/16"), depth=2, position=Learned1D(at="every")).build()
    first, second = (table.table for table in model.encoder.position.tables)
    assert (first != second).all()


def test_norms_start_as_the_identity() -> None:
    model = read("ViT-Mu/16").build()
    norms = [module for module in model.modules() if isinstance(module, nn.LayerNorm)]
    assert len(norms) == 3
    assert all((norm.weight == 1).all() and not norm.bias.any() for norm in norms)


def test_a_post_activation_unit_starts_with_its_third_scale_at_zero_and_so_as_the_identity() -> None:
    unit = PostUnit(128, 32, 1, POST)
    assert not unit.norm3.weight.any()
    assert (unit.norm1.weight == 1).all()
    assert (unit.norm2.weight == 1).all()
    x = torch.rand(2, 128, 5, 4)
    torch.testing.assert_close(unit(x), x, rtol=0, atol=0)


def test_every_unit_of_a_hybrid_has_its_third_scale_at_zero_and_its_shortcut_norm_at_one() -> None:
    units = [unit for stage in ResNetStem(units=(2, 1), width=32).build(3).stages for unit in stage.units]
    assert len(units) == 3
    assert not any(unit.norm3.weight.any() for unit in units)
    assert all((units[index].shortcut.norm.weight == 1).all() for index in (0, 2))


def test_a_pre_activation_unit_starts_with_all_scales_at_one() -> None:
    unit = PreUnit(64, 32, 1, PRE)
    assert all((norm.weight == 1).all() for norm in (unit.norm1, unit.norm2, unit.norm3))


def test_the_attention_pool_starts_with_xavier_matrices_each_by_itself() -> None:
    pool = Attend().build(WIDTH, 6, 4 * WIDTH, "gelu-tanh", 1e-6)
    assert isinstance(pool, AttendTokens)
    keys, values = pool.kv.weight.chunk(2)
    assert all(fills(matrix, math.sqrt(6 / (2 * WIDTH))) for matrix in (pool.q.weight, keys, values, pool.out.weight))
    bound = math.sqrt(6 / (1 + WIDTH))
    assert 0.95 * bound < pool.probe.abs().max().item() <= bound
