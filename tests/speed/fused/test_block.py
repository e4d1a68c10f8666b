"""What a fused block makes again on the way back it need not keep, and gradients are the same bits."""

import copy
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from patchwords.layers.pool import Mean
from patchwords.models.names import Config
from patchwords.models.vit import ViTConfig
from patchwords.speed.fused.choose import fuse
from patchwords.speed.fused.products import Eight
from patchwords.speed.kernels import table
from patchwords.speed.recompute import Again

CPU = torch.device("cpu")
interpreted = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU: kernels are not interpreted")
Randomise = Callable[[nn.Module], nn.Module]
each = pytest.mark.parametrize("again", ["norms", "hidden"])


def step(model: nn.Module, images: Tensor) -> list[Tensor]:
    """Logits and all gradients, from a fixed state of the random numbers."""
    torch.manual_seed(7)
    model.zero_grad()
    with torch.autocast("cpu", torch.bfloat16):
        logits = model(images)
    logits.float().square().mean().backward()
    return [logits.detach(), *(one.grad for one in model.parameters() if one.grad is not None)]


def kept(model: nn.Module, images: Tensor) -> int:
    """Bytes of all that waits for the way back."""
    found: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        found[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autocast("cpu", torch.bfloat16), saved_tensors_hooks(note, lambda tensor: tensor):
        logits = model(images)  # noqa: F841  # keeps the graph, and so the addresses, alive
    return sum(found.values())


def fused(model: nn.Module, again: Again | None, *, eight: bool = False, fast: bool = False) -> nn.Module:
    model = copy.deepcopy(model)
    kernels = table.fast() if fast else table.plain()
    assert fuse(model, kernels, torch.bfloat16, CPU, Eight if eight else None, again).blocks
    return model


@each
@pytest.mark.parametrize("eight", [False, True])
@pytest.mark.parametrize("small_config", ["plain", "distilled", "mean, norm after", "lite", "axial"], indirect=True)
def test_gradients_are_the_same_bit_for_bit(
    small_config: Config, randomised: Randomise, again: Again, eight: bool
) -> None:
    plain = randomised(replace(small_config, stochastic_depth=0.3).build()).train()
    images = torch.randn(4, small_config.channels, *small_config.image)
    found, expected = (step(fused(plain, which, eight=eight), images) for which in (again, None))
    assert len(found) == len(expected) > 8
    assert all(map(torch.equal, found, expected))


@each
@pytest.mark.parametrize("small_config", ["swin"], indirect=True)
def test_windows_too(small_config: Config, randomised: Randomise, again: Again) -> None:
    plain = randomised(small_config.build()).train()
    images = torch.randn(2, small_config.channels, *small_config.image)
    assert all(map(torch.equal, *(step(fused(plain, which), images) for which in (again, None))))


@interpreted
@each
@pytest.mark.parametrize("small_config", ["plain", "mean, norm after"], indirect=True)
def test_kernels_make_the_same_bits_again(small_config: Config, randomised: Randomise, again: Again) -> None:
    """A norm behind a sum is made again from the sum, by another kernel than at first."""
    pytest.importorskip("triton", reason="Triton is not installed")
    plain = randomised(small_config.build()).train()
    images = torch.randn(2, small_config.channels, *small_config.image)
    assert all(map(torch.equal, *(step(fused(plain, which, fast=True), images) for which in (again, None))))


@pytest.mark.parametrize("small_config", ["plain"], indirect=True)
def test_what_is_made_again_is_not_kept(small_config: ViTConfig) -> None:
    """Two times the stream less for the norms, and the width of the MLP less for the hidden layer, in every block."""
    config = replace(small_config, depth=3, special=(), pool=Mean())
    plain, images = config.build().train(), torch.randn(4, 3, *config.image)
    rows, two = 4 * config.tokens, 2  # bytes of a number
    nothing, norms, hidden = (kept(fused(plain, again), images) for again in (None, "norms", "hidden"))
    assert nothing - norms == 3 * 2 * rows * config.width * two
    assert norms - hidden == 3 * rows * config.mlp * two


@pytest.mark.parametrize("small_config", ["plain"], indirect=True)
def test_a_last_layer_that_is_read_in_front_keeps_less_too(small_config: ViTConfig) -> None:
    config = replace(small_config, depth=1)
    plain, images = config.build().train(), torch.randn(4, 3, *config.image)
    nothing, norms, hidden = (kept(fused(plain, again), images) for again in (None, "norms", "hidden"))
    assert (
        nothing - norms == (4 * config.tokens + 4) * config.width * 2
    )  # before attention all, behind it one a picture
    assert norms - hidden == 4 * config.mlp * 2
