"""`patchwords predict --figure DIR --html`: beside each figure the page of its picture."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from torch import nn

from patchwords.models.build import build
from patchwords.models.names import Config
from patchwords.weights.card import Card, fitted
from patchwords.weights.load import save


@pytest.fixture
def model(small_configs: dict[str, Config], randomised: Callable[[nn.Module], nn.Module], tmp_path: Path) -> str:
    chosen = replace(small_configs["plain"], classes=2)
    path = tmp_path / "model.safetensors"
    save(randomised(build(chosen)), path, fitted(Card(model=chosen), chosen, ("rose", "tulip")))  # type: ignore[arg-type]
    return str(path)


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    folder.mkdir()
    for number in range(2):
        pixels = np.random.default_rng(number).integers(0, 256, (30, 40, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{number}.png")
    return folder


def test_each_figure_gets_a_page_beside_it(run, model: str, photos: Path, tmp_path: Path) -> None:
    answer = run("predict", model, str(photos), "--figure", str(tmp_path / "figures"), "--html")
    assert answer.code == 0
    found = sorted(path.name for path in (tmp_path / "figures").iterdir())
    assert found == ["0001-0.html", "0001-0.png", "0002-1.html", "0002-1.png"]
    markup = (tmp_path / "figures" / "0002-1.html").read_text("utf-8")
    assert '"name":"1.png"' in markup
    assert str(tmp_path) not in markup


def test_without_a_folder_for_figures_there_is_no_place_for_pages(run, model: str, photos: Path) -> None:
    answer = run("predict", model, str(photos), "--html")
    assert answer.code == 2
    assert "--html writes pages beside the figures: say where with --figure DIR" in answer.err


def test_without_the_flag_there_are_figures_alone(run, model: str, photos: Path, tmp_path: Path) -> None:
    run("predict", model, str(photos), "--figure", str(tmp_path / "figures"))
    assert {path.suffix for path in (tmp_path / "figures").iterdir()} == {".png"}
