"""The stream of inference gives the plain model's logits; in eight bits nearly."""

import copy
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from patchwords.layers.pool import Mean
from patchwords.models.names import Config
from patchwords.speed.fused.eight import EightStream, largest
from patchwords.speed.fused.embed import fuse_embed
from patchwords.speed.fused.parts import parts_of
from patchwords.speed.fused.stream import Stream, layers
from patchwords.speed.gpu import stream as streamed_for_a_gpu
from patchwords.speed.kernels import eight, table
from patchwords.speed.kernels.table import Kernels

FUSABLE = ["plain", "grey", "mlp head", "mean", "mean, norm after", "map", "distilled", "no positions", "hybrid"]
FUSABLE += ["1d over class", "2d", "sincos", "no classes"]


def streamed(
    model: nn.Module,
    kind: type[Stream] | type[EightStream],
    dtype: torch.dtype,
    kernels: Kernels | None = None,
) -> nn.Module:
    model, kernels = copy.deepcopy(model), kernels or table.plain()
    parts = parts_of(model)
    assert parts is not None
    assert parts.whole
    stream = kind(parts.blocks, parts.encoder.norm, parts.pool.front, kernels, dtype)
    fuse_embed(parts.embed, kernels, dtype)
    vars(model)["read"] = lambda tokens: parts.pool(stream(tokens))
    return model


def biased(model: nn.Module) -> nn.Module:
    """An MLP's biases begin too small to be missed."""
    for name, parameter in model.named_parameters():
        if name.endswith("bias"):
            parameter += 0.2 * torch.randn_like(parameter)
    return model


@pytest.mark.parametrize("small_config", FUSABLE, indirect=True)
@torch.inference_mode()
def test_the_logits_are_the_same(small_config: Config, randomised: Callable[[nn.Module], nn.Module]) -> None:
    model = biased(randomised(small_config.build()).eval())
    images = torch.randn(3, small_config.channels, *small_config.image)
    torch.testing.assert_close(streamed(model, Stream, torch.float32)(images), model(images), atol=2e-5, rtol=2e-5)


@pytest.mark.parametrize("small_config", ["plain"], indirect=True)
@torch.inference_mode()
def test_products_are_those_of_the_kernels(small_config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of each layer's q, k and v (of the last, k and v), and of what is added to the stream itself."""
    given, asked = table.plain(), Counter[str]()

    def counted(name: str) -> Callable[..., Tensor]:
        def product(*each: Tensor) -> Tensor:
            asked[name] += 1
            y = getattr(given, name)(*each)
            assert name != "product_added" or y is each[2]
            return y

        return product

    counting = replace(given, **{name: counted(name) for name in ("product", "product_added")})
    monkeypatch.setattr(table, "plain", lambda: counting)
    images = torch.randn(3, 3, *small_config.image)
    streamed(small_config.build().eval(), Stream, torch.float32)(images)
    assert asked == {"product": small_config.depth, "product_added": 2 * small_config.depth}


@pytest.mark.parametrize("activation", ["gelu", "gelu-tanh"])
@torch.inference_mode()
def test_eight_bits_are_near(
    small_configs: dict[str, Config], randomised: Callable[[nn.Module], nn.Module], activation: str
) -> None:
    config = replace(small_configs["plain"], depth=4, width=64, mlp=128, activation=activation)
    heads_of_64 = replace(config, width=128)
    for pooled in (config, replace(config, pool=Mean()), heads_of_64):
        model = biased(randomised(pooled.build()).eval())
        images = torch.randn(16, 3, *config.image)
        found, expected = streamed(model, EightStream, torch.float32)(images), model(images)
        error = (found - expected).norm() / expected.norm()
        assert 1e-4 < error < 0.12  # rounded, but not by more than three bits of a number leave


@pytest.mark.parametrize(
    "small_config", ["regularised", "beit", "axial", "resnet pre", "swin", "1d every"], indirect=True
)
def test_other_models_are_left_alone(small_config: Config) -> None:
    parts = parts_of(small_config.build())
    assert parts is None or not parts.whole


@pytest.mark.parametrize("small_config", ["plain", "hybrid"], indirect=True)
@torch.inference_mode()
def test_pictures_in_single_precision_are_rounded_on_their_way(
    small_config: Config, randomised: Callable[[nn.Module], nn.Module]
) -> None:
    """As they are cut into patches, or by a hybrid's convolutions, whose weights are in single precision."""
    model = randomised(small_config.build()).eval()
    copied = copy.deepcopy(model).requires_grad_(False)
    parts = parts_of(copied)
    assert parts is not None
    streamed_for_a_gpu(copied, parts, table.plain(), "bf16")
    images = torch.randn(3, small_config.channels, *small_config.image)
    found, expected = copied(images), model(images)
    assert 1e-4 < (found - expected).norm() / expected.norm() < 0.05


@pytest.mark.parametrize("pooled", [True, False])
@torch.inference_mode()
def test_what_a_product_has_not_added_the_next_norm_adds(
    small_configs: dict[str, Config], randomised: Callable[[nn.Module], nn.Module], pooled: bool
) -> None:
    """As where the library has no product in eight bits that adds, and for few pictures."""
    config = replace(small_configs["plain"], depth=4, width=128, mlp=128)
    model = biased(randomised((replace(config, pool=Mean()) if pooled else config).build()).eval())
    images = torch.randn(16, 3, *config.image)
    left = replace(table.plain(), product_eight_added=lambda *given: eight.product(*given[:4], None))
    found, expected = (streamed(model, EightStream, torch.float32, each)(images) for each in (left, table.plain()))
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-3)


@torch.no_grad()
def test_each_column_of_attention_has_a_factor_of_its_own(
    small_configs: dict[str, Config], randomised: Callable[[nn.Module], nn.Module]
) -> None:
    """Values ten thousand times as large in some columns, which the next matrix takes back, cost the others nothing."""
    config = replace(small_configs["plain"], depth=3, width=128, mlp=128)
    model = biased(randomised(config.build()).eval())
    for block in model.encoder.blocks:
        attention = block.attention
        attention.qkv.weight[256:260] *= 1e4
        attention.qkv.bias[256:260] *= 1e4
        attention.out.weight[:, :4] *= 1e-4
        attention.qkv.weight[260:264] = 0.0  # values that are nothing
        attention.qkv.bias[260:264] = 0.0
    images = torch.randn(16, 3, *config.image)
    found, expected = streamed(model, EightStream, torch.float32)(images), model(images)
    assert 1e-4 < (found - expected).norm() / expected.norm() < 0.12


@pytest.mark.parametrize("aimed", [False, True])
@torch.no_grad()
def test_no_value_is_larger_than_weights_let_it_be(
    small_configs: dict[str, Config], randomised: Callable[[nn.Module], nn.Module], aimed: bool
) -> None:
    """Nor, by rows that are made for it, much smaller."""
    block = biased(randomised(replace(small_configs["plain"], width=128, depth=1).build())).encoder.blocks[0]
    (weights,), _ = layers([block], torch.float32, torch.zeros(128))
    x = torch.randn(4096, 128)
    if aimed:
        x = weights.qkv[0].chunk(3)[2] * weights.norm1[0]
        x = torch.cat([x, -x])
    values = block.attention.qkv(block.norm1(x)).chunk(3, -1)[2]
    share = (values.abs() / largest(weights)).amax(0)
    assert share.max() <= 1.0
    assert not aimed or share.min() > 0.9
