"""On a GPU: fused models compute what plain ones do, in training and in inference, graphs included."""

import copy
import gc
import os
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor, nn

from patchwords.bench.learning import Asked, largest_gap, learning
from patchwords.errors import UsageError
from patchwords.models.build import build
from patchwords.models.names import Config
from patchwords.speed.graphs import Graphs
from patchwords.speed.kernels import product_cublas
from patchwords.speed.precision import EIGHT_BITS, Precision
from patchwords.speed.prepare import prepare, ready
from patchwords.speed.recompute import Recompute

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
    pytest.mark.filterwarnings("ignore"),  # inductor's advice on precision is not ours to mend
]
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # for same bits, and before the first product

DEVICE = torch.device("cuda")
MODELS = ["ViT-Ti/16@64", "ViT-Ti/16-gap@96", "DeiT-Ti/16-distilled@64", "ViT-Lite-4/4", "ViT-Ti/16", "Swin-T"]


def made(name: str, randomised: Callable[[nn.Module], nn.Module]) -> tuple[nn.Module, Tensor]:
    model = randomised(build(name, classes=10)).to(DEVICE)
    return model, torch.randn(6, 3, *model.config.image, device=DEVICE)


def apart(found: Tensor, expected: Tensor) -> float:
    return float((found.double() - expected.double()).norm() / expected.double().norm())


def fused(model: nn.Module, precision: Precision = "bf16", *, recomputed: Recompute = False) -> list[str]:
    notes: list[str] = []
    prepare(
        model,
        kernels="fused",
        recomputed=recomputed,
        compiled=False,
        device=DEVICE,
        precision=precision,
        note=notes.append,
    )
    return notes


@pytest.fixture
def eight_bits() -> None:
    if torch.cuda.get_device_capability(DEVICE) < EIGHT_BITS:
        pytest.skip("a GPU without products in eight bits")


@pytest.fixture
def unmeasured() -> Iterator[None]:
    """No product has an algorithm yet."""
    product_cublas.offered.cache_clear()
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("name", MODELS)
def test_logits_and_gradients_in_training(name: str, randomised: Callable[[nn.Module], nn.Module]) -> None:
    _learns_as_plain(*made(name, randomised))


@pytest.mark.usefixtures("unmeasured")
def test_logits_and_gradients_of_so_many_rows_that_products_are_measured(
    randomised: Callable[[nn.Module], nn.Module],
) -> None:
    model, _ = made("ViT-S/16", randomised)
    _learns_as_plain(model, torch.randn(24, 3, *model.config.image, device=DEVICE))
    assert product_cublas.offered.cache_info().currsize >= 8  # forward q, k and v, out, fc1, fc2, and back


@pytest.mark.usefixtures("unmeasured")
def test_so_many_rows_give_the_same_bits_where_these_are_asked_for(
    randomised: Callable[[nn.Module], nn.Module],
) -> None:
    """As in two runs: what one of them has measured is unknown to the other."""
    model, _ = made("ViT-S/16", randomised)
    images = torch.randn(24, 3, *model.config.image, device=DEVICE)
    fused(model)
    found = []
    for exact in (True, False, True):
        if len(found) == 1:
            product_cublas.offered.cache_clear()
        torch.use_deterministic_algorithms(exact)
        model.zero_grad()
        with torch.autocast("cuda", torch.bfloat16):
            model(images).float().square().sum().backward()
        found.append([parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None])
    assert all(torch.equal(*pair) for pair in zip(found[0], found[2], strict=True))


def _learns_as_plain(plain: nn.Module, images: Tensor) -> None:
    model = copy.deepcopy(plain)
    (sentence,) = fused(model)
    assert "fused in 0" not in sentence
    expected = plain(images)
    expected.square().sum().backward()
    with torch.autocast("cuda", torch.bfloat16):
        found = model(images)
    found.float().square().sum().backward()
    assert apart(found, expected) < 0.03
    for (label, parameter), other in zip(model.named_parameters(), plain.parameters(), strict=True):
        assert parameter.grad is not None, label
        assert parameter.grad.dtype == torch.float32
        assert (parameter.grad - other.grad).norm() <= 0.08 * other.grad.norm() + 1e-4, label


@pytest.mark.usefixtures("eight_bits")
@pytest.mark.parametrize("name", [name for name in MODELS if name != "Swin-T"])
@pytest.mark.parametrize("recomputed", [False, True])
def test_logits_and_gradients_in_training_in_eight_bits(
    name: str, recomputed: bool, randomised: Callable[[nn.Module], nn.Module]
) -> None:
    plain, images = made(name, randomised)
    model = copy.deepcopy(plain).train()
    (sentence,) = fused(model, "fp8", recomputed=recomputed)
    depth = len(model.encoder.blocks)
    assert sentence == f"kernels: fused in {depth} of {depth} blocks, products in eight bits in {depth - 1}"
    expected = plain.train()(images)
    expected.square().sum().backward()
    with torch.autocast("cuda", torch.bfloat16):
        found = model(images)
    found.float().square().sum().backward()
    assert 1e-3 < apart(found, expected) < 0.15
    with torch.autocast("cuda", torch.bfloat16), torch.no_grad():
        assert apart(model.eval()(images), expected) < 0.03
    for (label, parameter), other in zip(model.named_parameters(), plain.parameters(), strict=True):
        assert parameter.grad is not None, label
        assert parameter.grad.dtype == torch.float32
        assert (parameter.grad - other.grad).norm() <= 0.25 * other.grad.norm() + 1e-4, label


@pytest.mark.parametrize("again", ["norms", "hidden"])
@pytest.mark.parametrize("name", MODELS)
def test_what_is_made_again_is_the_same_and_takes_less_memory(
    name: str, again: Recompute, randomised: Callable[[nn.Module], nn.Module]
) -> None:
    plain, _ = made(name, randomised)
    images = torch.randn(16, 3, *plain.config.image, device=DEVICE)
    took, gradients = [], []
    for recomputed in (False, again):
        gc.collect()  # a model and the forwards that it was given hold each other
        before = torch.cuda.memory_allocated(DEVICE)
        model = copy.deepcopy(plain).train()
        fused(model, recomputed=recomputed)
        for _ in range(2):  # algorithms are chosen in the first step
            model.zero_grad()
            torch.cuda.reset_peak_memory_stats(DEVICE)
            with torch.autocast("cuda", torch.bfloat16):
                model(images).float().square().sum().backward()
        took.append(torch.cuda.max_memory_allocated(DEVICE) - before)
        gradients.append([parameter.grad for parameter in model.parameters()])
        del model
    assert took[1] < took[0]
    for found, expected in zip(*gradients, strict=True):
        assert apart(found, expected) < 1e-2


@pytest.mark.usefixtures("eight_bits")
def test_a_run_in_eight_bits_learns_about_as_well() -> None:
    asked = Asked(
        model="ViT-Ti/8",
        device=DEVICE,
        batch=64,
        steps=200,
        image=32,
        classes=10,
        count=2048,
        fast=("bf16", "fp8"),
    )
    notes: list[str] = []
    plain, _, usual, narrow = learning(asked, notes.append).curves.values()
    assert narrow[-1] < 0.7 * narrow[0]
    assert largest_gap(usual, narrow) < 0.2
    assert largest_gap(plain, narrow) < 0.2
    assert usual != narrow


@pytest.mark.parametrize("name", [*MODELS, "R26+ViT-S/32@64"])
@pytest.mark.parametrize("precision", ["float32", "bf16", "fp16"])
def test_logits_in_inference(name: str, precision: str, randomised: Callable[[nn.Module], nn.Module]) -> None:
    model, images = made(name, randomised)
    with torch.inference_mode():
        expected = model.eval()(images)
    for graphs in ("never", "always"):
        answer = ready(model, device=DEVICE, precision=precision, graphs=graphs)
        found = answer(images)
        assert found.dtype == torch.float32
        assert apart(found, expected) < (1e-4 if precision == "float32" else 0.03)
        assert torch.equal(answer(images), found)
        assert torch.equal(answer(images[:2]), answer(images[:2].clone()))


@pytest.mark.usefixtures("unmeasured")
@pytest.mark.parametrize("graphs", ["never", "always"])
def test_logits_of_so_many_rows_that_products_are_measured(
    graphs: Graphs, randomised: Callable[[nn.Module], nn.Module]
) -> None:
    model, _ = made("ViT-S/16", randomised)
    images = torch.randn(96, 3, *model.config.image, device=DEVICE)
    with torch.inference_mode():
        expected = model.eval()(images)
    answer = ready(model, device=DEVICE, precision="bf16", graphs=graphs)
    first = answer(images)
    assert apart(first, expected) < 0.03
    assert product_cublas.offered.cache_info().currsize == 5  # q, k and v, k and v of the last, out, fc1, fc2
    assert torch.equal(answer(images), first)
    assert not torch.equal(answer(-images), first)


@pytest.mark.usefixtures("eight_bits", "unmeasured")
def test_eight_bits_of_so_many_rows_that_products_are_measured(randomised: Callable[[nn.Module], nn.Module]) -> None:
    model, _ = made("ViT-S/16", randomised)
    images = torch.randn(96, 3, *model.config.image, device=DEVICE)
    with torch.inference_mode():
        expected = model.eval()(images)
    answer = ready(model, device=DEVICE, precision="fp8")
    first = answer(images)
    assert 1e-3 < apart(first, expected) < 0.12
    assert torch.equal(answer(images), first)


def test_eight_bits(randomised: Callable[[nn.Module], nn.Module]) -> None:
    model, images = made("ViT-Ti/16", randomised)
    with torch.inference_mode():
        expected = model.eval()(images)
    answer = ready(model, device=DEVICE, precision="fp8")
    assert 1e-3 < apart(answer(images), expected) < 0.12
    with pytest.raises(UsageError, match="choose bf16"):
        ready(build("R26x1", classes=3), device=DEVICE, precision="fp8")
    with pytest.raises(UsageError, match="for CPUs"):
        ready(model, device=DEVICE, precision="int8")


def test_a_graph_answers_each_batch_with_its_own_logits(randomised: Callable[[nn.Module], nn.Module]) -> None:
    model, images = made("ViT-Ti/16@64", randomised)
    answer = ready(model, device=DEVICE, precision="bf16", graphs="always")
    first = answer(images)
    second = answer(-images)
    assert not torch.equal(first, second)
    assert torch.equal(answer(images), first)


@pytest.mark.parametrize("small_config", ["plain", "lite", "regularised", "distilled", "axial", "swin"], indirect=True)
def test_two_steps_give_the_same_bits(small_config: Config) -> None:
    _same_bits(small_config, "bf16")


@pytest.mark.usefixtures("eight_bits")
@pytest.mark.parametrize("small_config", ["plain", "lite", "distilled", "axial"], indirect=True)
def test_two_steps_in_eight_bits_give_the_same_bits(small_config: Config) -> None:
    _same_bits(small_config, "fp8")


@pytest.mark.usefixtures("eight_bits")
@pytest.mark.parametrize("small_config", ["regularised", "swin", "resnet pre"], indirect=True)
def test_models_without_a_block_for_eight_bits_are_refused(small_config: Config) -> None:
    with pytest.raises(UsageError, match="this model has none"):
        fused(small_config.build().to(DEVICE), "fp8")


def _same_bits(config: Config, precision: Precision) -> None:
    found = []
    for _ in range(2):
        torch.manual_seed(3)
        model = config.build().to(DEVICE).train()
        fused(model, precision)
        images = torch.randn(8, config.channels, *config.image, device=DEVICE)
        with torch.autocast("cuda", torch.bfloat16):
            model(images).float().square().mean().backward()
        found.append([parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None])
    assert all(torch.equal(*pair) for pair in zip(*found, strict=True))
