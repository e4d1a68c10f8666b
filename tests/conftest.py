"""Small models that between them hold every part, and values for the parameters that start at zero."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

if not Path("/dev/nvidia0").exists():  # no GPU: Triton's kernels are interpreted, which must be said before torch loads
    os.environ["TRITON_INTERPRET"] = "1"

import pytest
import torch
from torch import nn

from patchwords.layers.bottleneck import POST, PRE
from patchwords.layers.head import Linear, TanhMLP
from patchwords.layers.pool import Attend, Mean
from patchwords.layers.position import (
    Fixed1D,
    Learned1D,
    Learned2D,
    NoPosition,
    Relative,
    RelativeBias,
    SinCos2D,
    Sinusoidal1D,
)
from patchwords.models.deit import distilled
from patchwords.models.hybrid import ResNetStem
from patchwords.models.names import Config, read
from patchwords.models.resnet import ResNetConfig
from patchwords.models.swin import SwinConfig
from patchwords.models.vit import ViTConfig

PLAIN = ViTConfig(depth=2, width=32, mlp=48, heads=2, patch=(8, 8), image=(32, 24), classes=5)
PATCHES = replace(PLAIN, special=(), pool=Mean())  # without special tokens
REGISTERS = replace(PLAIN, special=("class", "register", "register"))

SMALL: dict[str, Config] = {
    "plain": PLAIN,
    "grey": replace(PLAIN, channels=1, image=(16, 16), patch=(8, 4), head=Linear(bias=-10.0)),
    "mlp head": replace(PLAIN, head=TanhMLP(hidden=24, bias=-1.0)),
    "no classes": replace(PLAIN, classes=0),
    "regularised": replace(
        PLAIN, layer_scale=0.1, dropout=0.1, weight_dropout=0.1, stochastic_depth=0.3, depth=3, activation="gelu"
    ),
    "lite": replace(read("ViT-Lite-2/4"), image=(16, 16)),
    "mean": PATCHES,
    "mean, norm after": replace(PLAIN, pool=Mean(norm="after")),
    "map": replace(REGISTERS, pool=Attend()),
    "map over patches": replace(REGISTERS, pool=Attend(over="patches")),
    "distilled": distilled(PLAIN),
    "fixed 1d": replace(PLAIN, position=Fixed1D(), pool=Mean(norm="after")),
    "no positions": replace(PLAIN, position=NoPosition()),
    "1d over class": replace(REGISTERS, position=Learned1D(over="class")),
    "1d over patches": replace(PLAIN, position=Learned1D(over="patches")),
    "1d every": replace(PLAIN, position=Learned1D(at="every")),
    "1d shared": replace(REGISTERS, position=Learned1D(at="shared")),
    "2d": replace(PLAIN, position=Learned2D()),
    "2d every": replace(PLAIN, position=Learned2D(at="every")),
    "2d shared": replace(PLAIN, position=Learned2D(at="shared")),
    "sincos": replace(PLAIN, position=SinCos2D()),
    "sincos mae every": replace(PLAIN, position=SinCos2D(law="mae", at="every")),
    "sincos shared": replace(REGISTERS, position=SinCos2D(at="shared")),
    "sinusoidal": replace(PLAIN, position=Sinusoidal1D()),
    "sinusoidal every": replace(PATCHES, position=Sinusoidal1D(at="every")),
    "sinusoidal shared": replace(REGISTERS, position=Sinusoidal1D(at="shared")),
    "relative": replace(PLAIN, position=Relative()),
    "beit": replace(
        PLAIN, position=RelativeBias(), biases="qv", activation="gelu", layer_scale=0.1, pool=Mean(norm="after")
    ),
    "beit shared": replace(REGISTERS, position=RelativeBias(at="shared"), biases="qv", layer_scale=0.1),
    "relative bias without special tokens": replace(PATCHES, position=RelativeBias()),
    "axial": replace(PATCHES, encoder="axial"),
    "axial relative": replace(PATCHES, encoder="axial", position=Relative(), pool=Attend()),
    "axial 2d every": replace(PATCHES, encoder="axial", position=Learned2D(at="every")),
    "hybrid": replace(PLAIN, stem=ResNetStem(units=(2, 1), width=32), patch=(1, 1)),
    "hybrid root": replace(PLAIN, stem=ResNetStem(units=(), width=32), patch=(2, 2)),
    "hybrid pre": replace(PLAIN, stem=ResNetStem(units=(1,), width=32, form=PRE), patch=(2, 2)),
    "resnet post": ResNetConfig(units=(2, 1), width=32, form=POST, image=(32, 24), classes=5),
    "resnet pre": ResNetConfig(units=(2, 1), width=32, form=PRE, image=(32, 24), classes=5),
    "swin": SwinConfig(depths=(2, 2), heads=(1, 2), width=16, mlp=2, window=(2, 2), image=(32, 32), classes=5),
    "swin odd": SwinConfig(  # maps of 7x5, 4x3 and 2x2: padded, halved with a rest, smaller than the window
        depths=(2, 2, 1),
        heads=(1, 2, 4),
        width=16,
        window=(3, 3),
        image=(28, 20),
        classes=5,
        biases="none",
        dropout=0.1,
        weight_dropout=0.1,
        stochastic_depth=0.2,
    ),
}


@pytest.fixture
def device() -> torch.device:
    """Where a kernel of Triton and its plain twin run: interpreted, or compiled where there is a GPU."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


@pytest.fixture(autouse=True)
def seed() -> None:
    """The same random numbers in every run, whichever tests are chosen."""
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def small_configs() -> dict[str, Config]:
    """All of the small configurations by name."""
    return SMALL


@pytest.fixture(params=SMALL)
def small_config(request: pytest.FixtureRequest) -> Config:
    """Each small configuration in turn; `parametrize("small_config", [name, ...], indirect=True)` picks some."""
    return SMALL[request.param]


@pytest.fixture(scope="session")
def randomised() -> Callable[[nn.Module], nn.Module]:
    """Gives values to what starts constant: heads, tokens and biases at zero, norms at one, the same ones each time."""

    @torch.no_grad()
    def randomise(model: nn.Module) -> nn.Module:
        generator = torch.Generator().manual_seed(7)
        for parameter in model.parameters():
            if parameter.min() == parameter.max():
                parameter += 0.2 * torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype)
        return model

    return randomise
