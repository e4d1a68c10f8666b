"""On a CUDA device a model says of pictures what it says on the CPU, in every precision and through every verb."""

from pathlib import Path

import numpy as np
import pytest
import torch

from patchwords.data.preprocess import Preprocess
from patchwords.evaluation.evaluate import evaluate
from patchwords.models.vit import ViTConfig
from patchwords.serve.predictor import Predictor
from patchwords.weights.card import Card
from patchwords.weights.load import write_native

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]


@pytest.fixture
def given(tmp_path: Path) -> tuple[Path, Path]:
    """A small model with random weights, and 100 random pictures of two classes."""
    config = ViTConfig(depth=2, width=64, mlp=128, heads=4, patch=(4, 4), image=(16, 16), classes=2)
    state = {name: torch.randn(tensor.shape) * 0.2 for name, tensor in config.build().state_dict().items()}
    card = Card(model=config, classes=("a", "b"), preprocess=Preprocess(size=(16, 16)))
    write_native(tmp_path / "model.safetensors", card, state)
    chance = np.random.default_rng(0)
    pixels = chance.integers(0, 256, (100, 16, 16, 3), dtype=np.uint8)
    classes = np.array(["a", "b"])
    np.savez(tmp_path / "data.npz", images=pixels, labels=chance.permutation(100) % 2, classes=classes)
    return tmp_path / "model.safetensors", tmp_path / "data.npz"


def logits(folder: Path) -> np.ndarray:
    with np.load(folder / "predictions.npz") as stored:
        return stored["logits"]


def test_the_scores_are_those_of_the_cpu(given: tuple[Path, Path], tmp_path: Path) -> None:
    model, data = given
    here = evaluate(model, data, device="cpu", out=tmp_path / "here", knn=(5,), few_shot=(1, 5))
    there = evaluate(model, data, device="cuda", out=tmp_path / "there", knn=(5,), few_shot=(1, 5))
    np.testing.assert_allclose(logits(there.folder), logits(here.folder), atol=2e-4)
    assert there.scores is not None
    assert here.scores is not None
    assert there.scores.accuracy == here.scores.accuracy
    assert there.cost.device != here.cost.device


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_half_the_bits_are_close(given: tuple[Path, Path], tmp_path: Path, precision: str) -> None:
    model, data = given
    exact = evaluate(model, data, device="cuda", out=tmp_path / "exact")
    half = evaluate(model, data, device="cuda", precision=precision, out=tmp_path / "half")
    assert np.isfinite(logits(half.folder)).all()
    np.testing.assert_allclose(logits(half.folder), logits(exact.folder), atol=0.5)
    assert not np.array_equal(logits(half.folder), logits(exact.folder))


def test_a_predictor_shows_where_it_looks(given: tuple[Path, Path]) -> None:
    picture = np.random.default_rng(1).integers(0, 256, (20, 30, 3), dtype=np.uint8)
    here, there = (Predictor(given[0], device=device).predict(picture, attention=True) for device in ("cpu", "cuda"))
    assert there.label == here.label
    assert there.attention is not None
    assert here.attention is not None
    np.testing.assert_allclose(there.attention, here.attention, atol=1e-5)
