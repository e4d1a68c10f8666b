"""A fused model computes what the plain one does, forward and backward, for every kind of model there is."""

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from patchwords.models.names import Config
from patchwords.speed.fused.attend import Short, cudnn_backward
from patchwords.speed.fused.block import Open
from patchwords.speed.fused.choose import attends, fuse
from patchwords.speed.kernels import table
from patchwords.speed.recompute import recompute

CPU = torch.device("cpu")
interpreted = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU: kernels are not interpreted")


def gradients(model: nn.Module, images: Tensor, seed: int) -> tuple[Tensor, dict[str, Tensor | None]]:
    torch.manual_seed(seed)
    logits = model(images)
    logits.square().sum().backward()
    return logits, {name: parameter.grad for name, parameter in model.named_parameters()}


def test_logits_and_gradients_are_those_of_the_plain_model(
    small_config: Config, randomised: Callable[[nn.Module], nn.Module]
) -> None:
    plain = randomised(small_config.build()).double().train()
    model = copy.deepcopy(plain)
    fuse(model, table.plain(), torch.float64, CPU)
    assert list(model.state_dict()) == list(plain.state_dict())
    images = torch.randn(3, small_config.channels, *small_config.image, dtype=torch.float64)
    given, usual = (images.clone().requires_grad_() for _ in range(2))
    (found, mine), (expected, theirs) = gradients(model, given, 5), gradients(plain, usual, 5)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(given.grad, usual.grad)
    for name, gradient in theirs.items():
        if gradient is not None:
            torch.testing.assert_close(mine[name], gradient, msg=lambda text, name=name: f"{name}: {text}")


@interpreted
@pytest.mark.parametrize("small_config", ["plain", "distilled", "mean, norm after", "lite"], indirect=True)
def test_the_kernels_take_what_a_model_gives_them(
    small_config: Config, randomised: Callable[[nn.Module], nn.Module]
) -> None:
    """Interpreted: what lies in memory, and how, is as on a GPU."""
    pytest.importorskip("triton", reason="Triton is not installed")
    plain = randomised(small_config.build()).train()
    model = copy.deepcopy(plain)
    fuse(model, table.fast(), torch.float32, CPU)
    images = torch.randn(3, small_config.channels, *small_config.image)
    (found, mine), (expected, theirs) = gradients(model, images, 5), gradients(plain, images, 5)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    for name, gradient in theirs.items():
        assert gradient is not None
        assert (mine[name] - gradient).norm() <= 1e-3 * gradient.norm() + 1e-5, name


@pytest.mark.parametrize("again", [False, True])
def test_a_norm_makes_the_sum_before_it_unless_blocks_run_again(small_configs: dict[str, Config], again: bool) -> None:
    sums = []

    def counted(*given: Any) -> Tensor:
        sums.append(given)
        return plain.add(*given)

    plain = table.plain()
    model = replace(small_configs["plain"], depth=4).build().train()
    fuse(model, replace(plain, add=counted), torch.float32, CPU)
    if again:
        recompute(model)
    model(torch.randn(2, 3, 32, 24))
    assert len(sums) == (4 if again else 1)  # what is left is that of the last block


@pytest.mark.parametrize("special", [("class",), ("class", "register")])
@pytest.mark.parametrize("pool", ["class", "mean"])
def test_stochastic_depth_draws_the_same(
    small_configs: dict[str, Config], randomised: Callable[[nn.Module], nn.Module], pool: str, special: tuple[str, ...]
) -> None:
    from patchwords.layers.pool import ClassToken, Mean

    kind = ClassToken() if pool == "class" else Mean()
    config = replace(small_configs["plain"], stochastic_depth=0.5, depth=3, special=special, pool=kind)
    plain = randomised(config.build()).double().train()
    model = copy.deepcopy(plain)
    assert fuse(model, table.plain(), torch.float64, CPU) == (3, 3, 0)
    images = torch.randn(8, 3, *config.image, dtype=torch.float64)
    (found, mine), (expected, theirs) = gradients(model, images, 1), gradients(plain, images, 1)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(mine, theirs)
    assert not torch.equal(found, gradients(model, images, 2)[0])


@pytest.mark.parametrize(
    ("small_config", "count"),
    [
        ("plain", 2),
        ("distilled", 2),
        ("mean, norm after", 2),
        ("lite", 2),
        ("regularised", 0),
        ("beit", 0),
        ("relative", 0),
        ("axial", 4),
        ("resnet pre", 0),
    ],
    indirect=["small_config"],
)
def test_what_is_fused(small_config: Config, count: int) -> None:
    found = fuse(small_config.build(), table.plain(), torch.float32, CPU)
    assert found.blocks == count
    assert found.every >= count


def test_all_layers_can_still_be_looked_at(small_configs: dict[str, Config]) -> None:
    plain = small_configs["plain"].build().eval()
    model = copy.deepcopy(plain)
    fuse(model, table.plain(), torch.float32, CPU)
    images = torch.randn(2, 3, *small_configs["plain"].image)
    with torch.no_grad():
        torch.testing.assert_close(model.features(images, [1, 2]), plain.features(images, [1, 2]))
        torch.testing.assert_close(model.attention(images, [2]), plain.attention(images, [2]))
        torch.testing.assert_close(model.encoder(model.embed(images)).x, plain.encoder(plain.embed(images)).x)


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize(
    ("capability", "most"),
    [((7, 5), 128), ((8, 0), 208), ((8, 6), 128), ((8, 9), 128), ((9, 0), 256), ((10, 3), 256), ((12, 0), 128)],
)
def test_a_gpu_takes_as_many_tokens_as_it_has_memory_for_and_the_library_the_others(
    capability: tuple[int, int],
    most: int,
    exact: bool,
    small_configs: dict[str, Config],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """cuDNN's attention, which does not promise the same bits, only where these are not asked for."""
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    monkeypatch.setattr(torch.backends.cudnn, "is_available", lambda: True)
    monkeypatch.setattr(torch, "are_deterministic_algorithms_enabled", lambda: exact)
    attention = replace(small_configs["plain"], width=128).build().encoder.blocks[0].attention
    attend = attends(attention, table.plain(), torch.device("cuda"))
    assert isinstance(attend, Short)
    takes = [tokens for tokens in (65, 128, 129, 208, 209, 256, 257) if attend._takes(torch.empty(1, tokens, 3 * 128))]
    assert max(takes) == most
    assert (attend.otherwise.backwards is cudnn_backward) == (capability >= (8, 0) and not exact)


def test_what_is_not_summed_yet_keeps_no_gradient_of_its_own(small_configs: dict[str, Config]) -> None:
    model = replace(small_configs["plain"], depth=3).build().train()
    fuse(model, table.plain(), torch.float32, CPU)
    rows = vars(model.encoder.blocks[0])["forward"].after(Open(torch.randn(2, 5, 32)))
    assert rows.stream.requires_grad
    assert rows.branch is not None
    assert not rows.branch.requires_grad


def test_who_listens_to_blocks_hears_of_them(small_configs: dict[str, Config]) -> None:
    model = replace(small_configs["plain"], depth=3).build().train()
    fuse(model, table.plain(), torch.float32, CPU)
    heard: list[torch.Size] = []
    model.encoder.blocks[1].register_forward_hook(lambda block, given, made: heard.append(made.shape))
    model(torch.randn(2, 3, 32, 24))
    assert heard == [torch.Size([2, model.config.tokens, 32])]
