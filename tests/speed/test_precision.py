"""Mixed precision: products in fewer bits, parameters and gradients in float32."""

from collections.abc import Callable

import pytest
import torch
from torch import nn

from patchwords.errors import UsageError
from patchwords.models.names import Config
from patchwords.speed.precision import Precision, autocast, check_precision, scaler

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("precision", "kind"), [("float32", torch.float32), ("bf16", torch.bfloat16), ("fp8", torch.bfloat16)]
)
def test_products_are_made_in_the_precision_that_is_asked_for(precision: Precision, kind: torch.dtype) -> None:
    layer, x = nn.Linear(4, 3), torch.rand(2, 4)
    with autocast(precision, CPU):
        assert layer(x).dtype == kind
    assert layer(x).dtype == torch.float32


@pytest.mark.parametrize("small_config", ["plain", "hybrid"], indirect=True)
def test_parameters_and_gradients_stay_in_float32_and_outputs_near(
    small_config: Config, randomised: Callable[[nn.Module], nn.Module]
) -> None:
    model = small_config.build().eval()
    randomised(model)
    images = torch.rand(2, 3, *small_config.image)
    with autocast("bf16", CPU):
        outputs = model(images)
    torch.testing.assert_close(outputs.float(), model(images), rtol=0.1, atol=0.1)
    outputs.float().square().sum().backward()
    kinds = {each.dtype for each in model.parameters()} | {each.grad.dtype for each in model.parameters()}  # type: ignore[union-attr]
    assert kinds == {torch.float32}


@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_only_fp16_scales_the_loss(precision: Precision) -> None:
    found = scaler(precision, CPU)
    assert not found.is_enabled()
    loss = torch.tensor(3.0)
    assert found.scale(loss) is loss
    assert found.state_dict() == {}


def test_fp16_scales_the_loss_where_there_is_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    monkeypatch.setattr(torch.amp, "GradScaler", lambda device, enabled: made.append((device, enabled)))
    scaler("fp16", torch.device("cuda"))
    assert made == [("cuda", True)]


def test_fp16_on_a_cpu_is_refused_with_what_to_choose() -> None:
    with pytest.raises(UsageError, match="precision fp16 needs a GPU: choose bf16 or float32"):
        scaler("fp16", CPU)


@pytest.mark.parametrize("device", ["cpu", "mps"])
def test_eight_bits_are_for_gpus(device: str) -> None:
    with pytest.raises(UsageError, match=f"fp8 needs a GPU .*, and the device is {device}: choose bf16 or float32"):
        check_precision("fp8", torch.device(device))


def test_eight_bits_are_for_gpus_that_have_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "A100")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (8, 0))
    with pytest.raises(UsageError, match="products in eight bits, and A100 has none: choose bf16"):
        check_precision("fp8", torch.device("cuda"))
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (8, 9))
    check_precision("fp8", torch.device("cuda"))
