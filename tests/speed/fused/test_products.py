"""Blocks with products in eight bits: gradients as near as these bits allow, and a model that learns as well."""

import copy
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from patchwords.layers.attention import Attention, NoOffsets
from patchwords.layers.block import Block, Layer, StreamNormBlock
from patchwords.layers.mlp import MLP
from patchwords.layers.pool import Mean
from patchwords.models.names import Config
from patchwords.models.vit import ViTConfig
from patchwords.speed.fused.choose import Fused, fuse
from patchwords.speed.fused.products import Eight
from patchwords.speed.kernels import table
from patchwords.speed.recompute import recompute

CPU = torch.device("cpu")
# e4m3 has three bits after the first: a number is off by 0.026 of itself, a product of two by 0.04, and what has gone
# through six of them by 0.09.
NOISE = 0.12
Randomise = Callable[[nn.Module], nn.Module]


def eight(module: nn.Module) -> Fused:
    return fuse(module, table.plain(), torch.bfloat16, CPU, Eight)


def made(kind: type[Layer], randomised: Randomise, skip: float = 0.0) -> Layer:
    attention, mlp = Attention(64, 2, "qkv", NoOffsets(), 0.0, 0.0), MLP(64, 160, "gelu", 0.0)
    block = randomised(kind(attention, mlp, 1e-6, None, skip))
    assert isinstance(block, Layer)
    return block.train()


def rows(pictures: int = 6) -> Tensor:
    return torch.randn(pictures, 20, 64)


def back(block: nn.Module, x: Tensor, grad: Tensor, seed: int = 0) -> dict[str, Tensor]:
    """The output, and the gradients of input and parameters."""
    torch.manual_seed(seed)
    block.zero_grad()
    dtype = next(block.parameters()).dtype
    x = x.to(dtype, copy=True).requires_grad_()
    y = block(x)
    y.backward(grad.to(y.dtype))
    learned = {name: each.grad.clone() for name, each in block.named_parameters() if each.grad is not None}
    assert x.grad is not None
    return {"y": y.detach(), "x": x.grad} | learned


def apart(found: Tensor, expected: Tensor) -> float:
    return float((found.double() - expected.double()).norm() / expected.double().norm())


@pytest.mark.parametrize("kind", [Block, StreamNormBlock])
@pytest.mark.parametrize("skip", [0.0, 0.5])
def test_gradients_are_those_of_the_plain_block(kind: type[Layer], skip: float, randomised: Randomise) -> None:
    block = made(kind, randomised, skip)
    plain = copy.deepcopy(block).double()
    assert eight(block) == (1, 1, 1)
    x, grad = rows(), rows()
    found, expected = back(block, x, grad), back(plain, x, grad)
    assert found.keys() == expected.keys()
    errors = {name: apart(found[name], expected[name]) for name in expected}
    assert max(errors.values()) < NOISE, errors
    assert max(errors.values()) > 0.01  # it was rounded indeed
    assert found["y"].dtype == torch.bfloat16
    assert all(found[name].dtype == torch.float32 for name in found.keys() - {"y"})


def test_matrices_are_rounded_from_their_masters_each_time(randomised: Randomise) -> None:
    block = made(Block, randomised)
    eight(block)
    x, grad = rows(), rows()
    before = back(block, x, grad)
    again = back(block, x, grad)
    assert all(torch.equal(before[name], again[name]) for name in before)
    with torch.no_grad():
        block.mlp.fc2.weight.mul_(2.0)
    assert apart(back(block, x, grad)["mlp.fc1.weight"], 2 * before["mlp.fc1.weight"]) < NOISE


def test_a_picture_of_another_size_spoils_no_other(randomised: Randomise) -> None:
    """With one scale for all rows the others would be nothing beside it."""
    block = made(Block, randomised)
    plain = copy.deepcopy(block).double()
    eight(block)
    x, grad = rows(), rows()
    grad[2] *= 1e7
    found, expected = back(block, x, grad), back(plain, x, grad)
    for picture in range(6):
        assert apart(found["x"][picture], expected["x"][picture]) < NOISE


def test_a_gradient_may_be_small(randomised: Randomise) -> None:
    block = made(Block, randomised)
    eight(block)
    x, grad = rows(), rows()
    usual, small = back(block, x, grad), back(block, x, 2.0**-60 * grad)
    for name in usual.keys() - {"y"}:
        assert apart(2.0**60 * small[name], usual[name]) < 1e-3, name


def test_what_is_not_finite_stays_so(randomised: Randomise) -> None:
    block = made(Block, randomised)
    eight(block)
    grad = rows()
    grad[1, 3, 5] = float("inf")
    found = back(block, rows(), grad)
    assert not torch.isfinite(found["mlp.fc1.weight"]).all()
    assert not torch.isfinite(found["attention.qkv.weight"]).all()
    assert torch.isfinite(found["x"][0]).all()


@pytest.mark.parametrize(
    ("small_config", "found"),
    [
        ("plain", (2, 2, 1)),
        ("mean, norm after", (2, 2, 1)),
        ("lite", (2, 2, 1)),
        ("axial", (4, 4, 2)),
        ("swin", (4, 4, 0)),
        ("regularised", (0, 3, 0)),
        ("resnet pre", (0, 0, 0)),
    ],
    indirect=["small_config"],
)
def test_which_blocks(small_config: Config, found: tuple[int, int, int]) -> None:
    assert eight(small_config.build()) == found


def test_sides_that_no_gpu_takes_are_left_in_sixteen_bits(small_configs: dict[str, Config]) -> None:
    assert eight(replace(small_configs["plain"], mlp=40).build()) == (2, 2, 0)


@pytest.fixture
def config(small_configs: dict[str, Config]) -> ViTConfig:
    found = replace(small_configs["plain"], depth=3, width=64, mlp=128, image=(32, 32))
    assert isinstance(found, ViTConfig)
    return found


@pytest.mark.parametrize("pool", ["class", "mean"])
def test_a_model_that_is_judged_answers_in_sixteen_bits(config: ViTConfig, randomised: Randomise, pool: str) -> None:
    config = config if pool == "class" else replace(config, special=(), pool=Mean())
    model = randomised(config.build())
    usual = copy.deepcopy(model)
    assert eight(model).narrow == 2
    fuse(usual, table.plain(), torch.bfloat16, CPU)
    images = torch.randn(3, 3, *config.image)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(model.eval()(images), usual.eval()(images))
        found, expected = model.train()(images).detach(), usual.train()(images).detach()
    assert 1e-3 < apart(found, expected) < 2 * NOISE


def test_blocks_that_run_again_give_the_same(config: ViTConfig, randomised: Randomise) -> None:
    model = randomised(replace(config, stochastic_depth=0.3).build()).train()
    eight(model)
    images, found = torch.randn(4, 3, *config.image), []
    for again in (False, True):
        if again:
            recompute(model)
        torch.manual_seed(3)
        model.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            logits = model(images)
        logits.float().square().mean().backward()
        found.append([logits, *(each.grad for each in model.parameters())])
    assert all(torch.equal(*pair) for pair in zip(*found, strict=True))


def test_a_model_learns_about_as_well(config: ViTConfig) -> None:
    """From pictures that it sees again and again, until it knows them."""
    generator = torch.Generator().manual_seed(1)
    images, labels = torch.randn(40, 3, *config.image, generator=generator), torch.arange(40) % config.classes
    plain = config.build()
    models = {"float32": plain, "bf16": copy.deepcopy(plain), "fp8": copy.deepcopy(plain)}
    fuse(models["bf16"], table.plain(), torch.bfloat16, CPU)
    eight(models["fp8"])
    curves = {}
    for name, model in models.items():
        descent = torch.optim.AdamW(model.parameters(), lr=1e-3)
        losses = []
        for _ in range(40):
            descent.zero_grad()
            with torch.autocast("cpu", torch.bfloat16, enabled=name != "float32"):
                loss = F.cross_entropy(model(images).float(), labels)
            loss.backward()
            descent.step()
            losses.append(float(loss.detach()))
        curves[name] = torch.tensor(losses)
    assert curves["fp8"][-1] < 0.3 * curves["fp8"][0]
    gaps = {name: float((curves[name] - curves["float32"]).abs().max()) for name in ("bf16", "fp8")}
    assert gaps["fp8"] < 0.1, gaps
    assert not torch.equal(curves["fp8"], curves["bf16"])
