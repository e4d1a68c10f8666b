"""Figure 6: rollout by its definition, and the same for the output alone with no more than a vector kept."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from patchwords.errors import UsageError
from patchwords.inspection.rollout import attention_map, follow, rollout
from patchwords.layers import look
from patchwords.layers.pool import Attend, Mean
from patchwords.layers.position import Relative
from patchwords.models.names import Config
from patchwords.models.vit import ViT, ViTConfig

Randomise = Callable[[nn.Module], nn.Module]

PLAIN = ViTConfig(depth=3, width=16, mlp=24, heads=2, patch=(8, 8), image=(32, 24), classes=5)
REGISTERS = replace(PLAIN, special=("class", "register", "register"))
POOLS = {
    "class": REGISTERS,
    "mean": replace(PLAIN, special=(), pool=Mean()),
    "mean beside registers": replace(REGISTERS, pool=Mean(norm="after")),
    "map": replace(REGISTERS, pool=Attend()),
    "map over patches": replace(REGISTERS, pool=Attend(over="patches")),
    "relative": replace(PLAIN, position=Relative(std=1.0)),
}


def images(config: Config, batch: int = 2) -> Tensor:
    return torch.randn(batch, config.channels, *config.image)


@pytest.fixture(params=POOLS)
def model(request: pytest.FixtureRequest, randomised: Randomise) -> ViT:
    return randomised(POOLS[request.param].build()).eval()


def stochastic(batch: int, tokens: int) -> Tensor:
    return torch.randn(batch, tokens, tokens, dtype=torch.float64).softmax(-1)


# The definition.


def test_rollout_of_identity_attention_is_the_identity() -> None:
    identity = torch.eye(5).expand(2, 5, 5)
    assert torch.equal(rollout([identity] * 4), identity)


def test_each_row_of_a_rollout_sums_to_one() -> None:
    found = rollout([stochastic(2, 7) for _ in range(5)])
    torch.testing.assert_close(found.sum(-1), torch.ones(2, 7, dtype=torch.float64))
    assert found.min() > 0


def test_the_last_layer_stands_on_the_left() -> None:
    first, last = stochastic(1, 4), stochastic(1, 4)
    identity = torch.eye(4, dtype=torch.float64)
    expected = (0.5 * last + 0.5 * identity) @ (0.5 * first + 0.5 * identity)
    torch.testing.assert_close(rollout([first, last]), expected)
    assert not torch.allclose(rollout([last, first]), expected)


def test_uniform_attention_in_one_layer_leaves_half_of_each_token_where_it_was() -> None:
    found = rollout([torch.full((1, 4, 4), 0.25)])
    torch.testing.assert_close(found[0], 0.5 * torch.eye(4) + 0.125)


# The output alone.


def plain(model: ViT, pictures: Tensor) -> Tensor:
    """What the output reads of the rollout of all layers, by the definition: (batch, tokens)."""
    with torch.inference_mode():
        maps = [weights.mean(1) for weights in model.attention(pictures, at=range(1, model.config.depth + 1))]
        return (model.gaze(pictures).reads[:, None] @ rollout(maps))[:, 0]


def test_following_the_output_is_what_it_reads_of_the_rollout(small_config: Config, randomised: Randomise) -> None:
    model = randomised(small_config.build()).eval()
    pictures = images(small_config)
    if model.shows != "gaze":
        with pytest.raises(UsageError, match=r"a ResNet has no attention weights|attention has no weights between"):
            attention_map(model, pictures)
        return
    expected = plain(model, pictures)
    found = follow(model.gaze(pictures))
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(found.sum(1), torch.ones(2))
    special = len(small_config.special)
    shown = attention_map(model, pictures)
    assert shown.shape == (2, *small_config.grid)
    torch.testing.assert_close(shown.flatten(1), expected[:, special:], atol=1e-6, rtol=1e-5)


def test_in_double_precision_both_are_the_same_to_the_last_digits(model: ViT) -> None:
    model, pictures = model.double(), images(PLAIN).double()
    torch.testing.assert_close(follow(model.gaze(pictures)), plain(model, pictures), atol=1e-14, rtol=1e-12)


def test_the_class_token_reads_the_first_row_and_the_mean_all_patches(randomised: Randomise) -> None:
    for name, rows in (("class", slice(0, 1)), ("mean beside registers", slice(3, None))):
        model = randomised(POOLS[name].build()).eval()
        pictures = images(PLAIN)
        with torch.inference_mode():
            product = rollout([weights.mean(1) for weights in model.attention(pictures, at=[1, 2, 3])])
        expected = product[:, rows].mean(1)[:, 3:].unflatten(1, (4, 3))
        torch.testing.assert_close(attention_map(model, pictures), expected, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("most", [1, 50, 400])
def test_the_map_does_not_depend_on_the_size_of_the_pieces(
    model: ViT, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    pictures = images(PLAIN)
    whole = attention_map(model, pictures)
    monkeypatch.setattr(look.Look.pieces, "__defaults__", (most,))
    torch.testing.assert_close(attention_map(model, pictures), whole, atol=1e-6, rtol=1e-5)


def test_a_picture_has_the_same_map_alone_and_in_a_batch(model: ViT) -> None:
    pictures = images(PLAIN, 3)
    alone = torch.cat([attention_map(model, picture[None]) for picture in pictures])
    torch.testing.assert_close(attention_map(model, pictures), alone, atol=1e-6, rtol=1e-4)


def test_nothing_is_kept_for_gradients(model: ViT) -> None:
    assert not attention_map(model, images(PLAIN)).requires_grad


def test_in_mixed_precision_shares_still_sum_to_one(model: ViT) -> None:
    pictures = images(PLAIN)
    with torch.autocast("cpu", torch.bfloat16):
        found = follow(model.gaze(pictures))
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.sum(1), torch.ones(2), atol=1e-5, rtol=0)
    torch.testing.assert_close(found, follow(model.gaze(pictures)), atol=0.02, rtol=0.1)


# Fused, plain and compiled.


def test_fused_and_plain_attention_give_the_same_map(model: ViT) -> None:
    pictures = images(PLAIN)
    with sdpa_kernel(SDPBackend.MATH):
        expected = attention_map(model, pictures)
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        torch.testing.assert_close(attention_map(model, pictures), expected, atol=1e-5, rtol=0)


def compiled_maps(model: ViT, pictures: Tensor, backend: str) -> list[Tensor]:
    """Of a model whose forward is compiled, of one whose blocks are, and of the whole function compiled."""
    torch._dynamo.reset()
    whole = torch.compile(partial(attention_map, model), backend=backend)(pictures)
    model.compile(backend=backend)
    with torch.inference_mode():
        model(pictures)
    outside = attention_map(model, pictures)
    for block in model.encoder.blocks:
        block.compile(backend=backend)
    return [whole, outside, attention_map(model, pictures)]


def test_a_compiled_model_gives_the_same_map(randomised: Randomise) -> None:
    model, pictures = randomised(replace(REGISTERS, depth=2).build()).eval(), images(PLAIN)
    expected = attention_map(model, pictures)
    for found in compiled_maps(model, pictures, "eager"):
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # inductor's advice is not ours to mend
def test_a_model_compiled_by_inductor_gives_the_same_map(model: ViT) -> None:
    pictures = images(PLAIN)
    expected = attention_map(model, pictures)
    for found in compiled_maps(model, pictures, "inductor"):
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)
