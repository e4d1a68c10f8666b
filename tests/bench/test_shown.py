"""Pictures of a data set, ready for the model."""

from pathlib import Path

import numpy as np
import pytest
import torch

from patchwords.bench import shown as module
from patchwords.bench.shown import shown
from patchwords.data.preprocess import Preprocess
from patchwords.models.names import read
from patchwords.settings import change
from patchwords.weights.card import Card

GREY = Preprocess(size=(8, 8), mean=(0.5,), deviation=(0.5,))


@pytest.fixture
def card() -> Card:
    return Card(model=change(read("ViT-Mu/8"), {"image": 8, "channels": 1, "classes": 2}), preprocess=GREY)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    images = np.arange(40, dtype=np.uint8)[:, None, None] * np.ones((8, 8), dtype=np.uint8)
    np.savez(tmp_path / "tiny.npz", images=images, labels=np.arange(40) % 2, classes=np.array(["even", "odd"]))
    return tmp_path / "tiny.npz"


def test_pictures_are_standardised(card: Card, data: Path, heard: list[str]) -> None:
    found = shown(data, card, heard.append, offline=True, mirror="")
    assert found.shape == (40, 1, 8, 8)
    assert torch.allclose(found[:, 0, 0, 0], (torch.arange(40) / 255 - 0.5) / 0.5)


def test_many_are_thinned_out_evenly(card: Card, data: Path, heard: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST", 4)
    found = shown(data, card, heard.append, offline=True, mirror="")
    assert [round(float(255 * (0.5 * row + 0.5))) for row in found[:, 0, 0, 0]] == [0, 13, 26, 39]
