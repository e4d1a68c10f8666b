"""Small models with names, each exported once for all tests that read the file."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from patchwords.export.export import export
from patchwords.export.exported import Exported
from patchwords.export.pictures import made
from patchwords.export.wish import Wish
from patchwords.models.build import build
from patchwords.models.names import Config
from patchwords.weights.card import Card, fitted
from patchwords.weights.subject import Subject

FLOWERS = ("daisy", "dandelion", "rose", "sunflower", "tulip")


@pytest.fixture(scope="session")
def small(small_configs: dict[str, Config], randomised: Callable[[nn.Module], nn.Module]) -> Callable[..., Subject]:
    """A model of one of the small configurations, opened."""

    def open_(config: str = "plain", classes: tuple[str, ...] = FLOWERS, **card: Any) -> Subject:
        chosen = replace(small_configs[config], classes=len(classes))
        with torch.random.fork_rng(devices=()):
            torch.manual_seed(1)  # the same weights whoever asks
            model = randomised(build(chosen)).eval()
        found = replace(fitted(Card(model=chosen, source="a test"), chosen, classes), **card)  # type: ignore[arg-type]
        return Subject(config, model, found)

    return open_


@pytest.fixture(scope="session")
def exported(
    small: Callable[..., Subject], data: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Exported]:
    """The file of a small model, made when it is first asked for and measured on data; nobody may change it."""
    folder = tmp_path_factory.mktemp("exported")

    @cache
    def once(config: str, ending: str, wish: Wish) -> Exported:
        name = f"{config} {wish.input} {wish.sizes} {wish.precision}{ending}"
        return export(small(config), folder / name, wish=wish, data=data if config == "plain" else "")

    def export_(config: str = "plain", ending: str = ".onnx", **wish: Any) -> Exported:
        return once(config, ending, Wish(**wish))

    return export_


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of picture files of many sizes and kinds."""
    folder = tmp_path_factory.mktemp("pictures")
    for number, data in enumerate(made(9)):
        ending = "png" if data.startswith(b"\x89PNG") else "jpg"
        (folder / f"{number}.{ending}").write_bytes(data)
    return folder


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twenty pictures of the classes, for measures."""
    draw = np.random.default_rng(3)
    images = draw.integers(0, 256, (20, 40, 30, 3), dtype=np.uint8)
    path = tmp_path_factory.mktemp("data") / "flowers.npz"
    np.savez(path, images=images, labels=np.arange(20) % 5, classes=np.array(FLOWERS))
    return path
