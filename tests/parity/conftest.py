"""What the comparisons share: the stored references, and random weights at a scale where a wrong detail shows."""

import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import NoReturn

import pytest
import torch
from torch import Tensor, nn

GOLDEN = Path(__file__).resolve().parents[3] / "shared" / "golden"


@pytest.fixture
def golden() -> Path:
    if not GOLDEN.is_dir():
        pytest.skip("the stored references are not beside this checkout: shared/golden is missing")
    return GOLDEN


@pytest.fixture(scope="module")
def hf() -> Iterator[ModuleType]:
    """transformers, told to stay offline and with nothing to connect through."""

    def refuse(*_: object) -> NoReturn:
        raise AssertionError("a socket was opened")

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_OFFLINE", "1")
        patch.setattr(socket.socket, "connect", refuse)
        yield pytest.importorskip("transformers")


@pytest.fixture
def randomise() -> Callable[[nn.Module], nn.Module]:
    """Every parameter drawn anew, norms too; tokens are small, so that the first norm's epsilon matters."""

    def draw(module: nn.Module) -> nn.Module:
        generator = torch.Generator().manual_seed(0)
        with torch.no_grad():
            for name, parameter in module.named_parameters():
                parameter.copy_(value(name, torch.randn(parameter.shape, generator=generator)))
        return module.eval()

    def value(name: str, noise: Tensor) -> Tensor:
        if noise.dim() > 1:
            return noise * (0.05 if noise.shape[0] == 1 else noise[0].numel() ** -0.5)
        return 1 + 0.1 * noise if name.endswith("weight") else 0.1 * noise

    return draw


@pytest.fixture
def difference() -> Callable[[Tensor, Tensor], float]:
    """The largest absolute difference; shapes must agree."""

    def largest(found: Tensor, wanted: Tensor) -> float:
        assert found.shape == wanted.shape
        assert wanted.abs().max() > 1e-3  # nothing is shown by comparing zeros
        return float((found - wanted).detach().abs().max())

    return largest
