"""A model that is made ready for a CPU says what it said before, and is left as it is."""

import logging
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import Tensor, nn

from patchwords.errors import UsageError
from patchwords.models.names import Config
from patchwords.models.resnet import ResNetConfig
from patchwords.speed import cpu
from patchwords.speed.cpu import ready_cpu
from patchwords.speed.packed import Int8, Packed
from patchwords.speed.precision import Working

Randomised = Callable[[nn.Module], nn.Module]
NEAR: dict[Working, float] = {"float32": 1e-5, "bf16": 0.05, "int8": 0.1}  # of the largest logit


@pytest.fixture
def model(small_config: Config, randomised: Randomised) -> nn.Module:
    """With many classes where it has any: five may happen to show the features' error alone."""
    return randomised(replace(small_config, classes=100 if small_config.classes else 0).build()).eval()


def pictures(config: Config, count: int = 3) -> Tensor:
    return torch.randn(count, config.channels, *config.image, generator=torch.Generator().manual_seed(torch.seed()))


def off(found: Tensor, expected: Tensor) -> float:
    return float((found - expected).abs().max() / expected.abs().max())


@pytest.mark.parametrize("precision", NEAR)
def test_it_says_what_the_plain_model_says(model: nn.Module, small_config: Config, precision: Working) -> None:
    if precision == "int8" and isinstance(small_config, ResNetConfig):
        pytest.skip("a ResNet has no linear layers")
    before = {key: value.clone() for key, value in model.state_dict().items()}
    images = pictures(small_config)
    with torch.inference_mode():
        expected = model(images)
    found = ready_cpu(model, precision, False)(images)
    assert found.dtype == torch.float32
    assert off(found, expected) < NEAR[precision]
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    with torch.inference_mode():
        assert torch.equal(model(images), expected)


@pytest.mark.parametrize("precision", NEAR)
@pytest.mark.parametrize("small_config", ["plain", "swin"], indirect=True)
def test_no_answer_depends_on_the_company(model: nn.Module, small_config: Config, precision: Working) -> None:
    images = pictures(small_config, 4) * torch.tensor([0.1, 1.0, 3.0, 30.0])[:, None, None, None]
    answer = ready_cpu(model, precision, False)
    alone = torch.cat([answer(image[None]) for image in images])
    limit = {"float32": 1e-5, "bf16": 0.02, "int8": 0.0}[precision]  # a kernel may sum otherwise for other sizes
    assert off(answer(images), alone) <= limit


@pytest.mark.parametrize("small_config", ["beit shared"], indirect=True)
@pytest.mark.parametrize(("precision", "kind"), [("float32", Packed), ("bf16", Packed), ("int8", Int8)])
def test_every_linear_layer_before_the_head_is_packed(
    model: nn.Module, precision: Working, kind: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[nn.Module] = []
    shorten = cpu._shorten
    monkeypatch.setattr(cpu, "_shorten", lambda copy: [made.append(copy), shorten(copy)])
    ready_cpu(model, precision, False)
    (prepared,) = made
    for block in prepared.encoder.blocks:  # type: ignore[union-attr]
        assert {type(each) for each in (block.attention.qkv, block.attention.out, block.mlp.fc1, block.mlp.fc2)} == {  # type: ignore[union-attr]
            kind
        }
    assert [type(part) for part in prepared.modules() if isinstance(part, nn.Linear)] == [nn.Linear]  # the classifier
    assert next(prepared.head.parameters()).dtype == torch.float32  # type: ignore[union-attr]


@pytest.mark.parametrize("small_config", ["plain", "distilled", "relative", "regularised"], indirect=True)
def test_the_last_layer_makes_the_tokens_that_are_read_and_no_others(model: nn.Module, small_config: Config) -> None:
    cpu._shorten(model)
    last = model.encoder.blocks[-1]  # type: ignore[index, union-attr]
    tokens = torch.randn(2, small_config.tokens, small_config.width)  # type: ignore[union-attr]
    whole = type(last).forward(last, tokens)  # type: ignore[arg-type, union-attr]
    front = model.pool.front  # type: ignore[union-attr]
    assert last(tokens).shape[1] == front  # type: ignore[operator]
    assert torch.allclose(last(tokens), whole[:, :front], atol=1e-5)  # type: ignore[operator]


@pytest.mark.parametrize("small_config", ["mean", "lite", "axial", "swin", "resnet pre", "map"], indirect=True)
def test_a_last_layer_that_is_read_as_a_whole_stays_whole(model: nn.Module) -> None:
    cpu._shorten(model)
    assert not any("forward" in vars(part) for part in model.modules())


@pytest.mark.parametrize("small_config", ["plain"], indirect=True)
def test_compiled_it_says_the_same(model: nn.Module, small_config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the generation of code, which needs minutes."""
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="eager"))
    monkeypatch.setattr(shutil, "which", lambda name: f"/bin/{name}")
    images = pictures(small_config)
    with torch.inference_mode():
        expected = model(images)
    assert off(ready_cpu(model, "float32", True)(images), expected) < 1e-5
    assert model._compiled_call_impl is None


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no compiler")
@pytest.mark.filterwarnings("ignore")  # inductor's own
@pytest.mark.parametrize("small_config", ["plain"], indirect=True)
@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_generated_code_says_the_same(model: nn.Module, small_config: Config, precision: Working) -> None:
    answer = ready_cpu(model, precision, True)
    for count in (1, 3, 2):
        images = pictures(small_config, count)
        with torch.inference_mode():
            assert off(answer(images), model(images)) < NEAR[precision]


@pytest.mark.parametrize("small_config", ["plain"], indirect=True)
@pytest.mark.parametrize("precision", ["fp16", "fp8"])
def test_what_needs_a_gpu_is_refused(model: nn.Module, precision: Working) -> None:
    with pytest.raises(UsageError, match=f"precision {precision} needs a GPU: choose float32, bf16 or int8 on a CPU"):
        ready_cpu(model, precision, False)


@pytest.mark.parametrize("small_config", ["resnet pre"], indirect=True)
def test_int8_of_a_model_without_linear_layers_is_refused(model: nn.Module) -> None:
    with pytest.raises(UsageError, match="this model has none but in its head: choose bf16"):
        ready_cpu(model, "int8", False)


@pytest.mark.parametrize("small_config", ["plain"], indirect=True)
def test_compile_without_a_compiler_is_refused(model: nn.Module, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(UsageError, match=r"compile needs a C\+\+ compiler, .* install one"):
        ready_cpu(model, "float32", True)


@pytest.mark.parametrize("small_config", ["plain"], indirect=True)
def test_what_is_packed_is_not_compiled(model: nn.Module) -> None:
    with pytest.raises(UsageError, match="the compiler cannot take them"):
        ready_cpu(model, "int8", True)


@pytest.mark.parametrize("small_config", ["plain"], indirect=True)
def test_without_onednn_linear_layers_stay_plain_and_int8_is_refused(
    model: nn.Module, small_config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    images = pictures(small_config)
    with torch.inference_mode():
        assert off(ready_cpu(model, "float32", False)(images), model(images)) < 1e-5
    with pytest.raises(UsageError, match="int8 needs oneDNN"):
        ready_cpu(model, "int8", False)


@pytest.mark.parametrize("small_config", ["plain"], indirect=True)
def test_without_bf16_instructions_bf16_is_a_remark_and_int8_works_around(
    model: nn.Module, small_config: Config, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(cpu, "has_bf16", lambda: False)
    images = pictures(small_config)
    with torch.inference_mode():
        expected = model(images)
    with caplog.at_level(logging.WARNING, "patchwords"):
        assert off(ready_cpu(model, "int8", False)(images), expected) < NEAR["int8"]
        assert not caplog.messages
        assert off(ready_cpu(model, "bf16", False)(images), expected) < NEAR["bf16"]
    assert len(caplog.messages) == 1
    assert "no bf16 instructions" in caplog.messages[0]
