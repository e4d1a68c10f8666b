"""Small models with random weights, opened as if from a file, and the writing of them."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from patchwords.models.names import Config
from patchwords.models.vit import ViTConfig
from patchwords.weights.adapt import shapes
from patchwords.weights.card import Card
from patchwords.weights.checkpoint import Checkpoint
from patchwords.weights.load import write_native


@pytest.fixture
def tiny() -> ViTConfig:
    """Four by four patches and a class token."""
    return ViTConfig(depth=2, width=48, mlp=96, heads=3, patch=(4, 4), image=(16, 16), classes=7)


@pytest.fixture
def filled() -> Callable[[Config], dict[str, Tensor]]:
    """Weights for a configuration, all of them random and none alike."""

    def fill(config: Config) -> dict[str, Tensor]:
        generator = torch.Generator().manual_seed(3)
        return {name: torch.randn(tensor.shape, generator=generator) for name, tensor in shapes(config).items()}

    return fill


@pytest.fixture
def checkpoint(filled: Callable[[Config], dict[str, Tensor]]) -> Callable[..., Checkpoint]:
    """An opened checkpoint of random weights; what else is given is for its card."""

    def open_(config: Config, **card: object) -> Checkpoint:
        return Checkpoint(Card(model=config, **card), filled(config), "native")  # type: ignore[arg-type]

    return open_


@pytest.fixture
def native(checkpoint: Callable[..., Checkpoint], tmp_path: Path) -> Callable[..., Path]:
    """A native file of random weights."""

    def write(config: Config, **card: object) -> Path:
        opened = checkpoint(config, **card)
        write_native(tmp_path / "model.safetensors", opened.card, opened.state)
        return tmp_path / "model.safetensors"

    return write
