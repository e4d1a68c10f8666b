"""Live beside torchvision, where it is installed: its weights give the same logits here, and ours the same there."""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import patchwords
from patchwords.data.preprocess import IMAGENET
from patchwords.models.build import build
from patchwords.weights import files
from patchwords.weights.card import Card
from patchwords.weights.checkpoint import Checkpoint, open_checkpoint
from patchwords.weights.convert import convert

Randomise = Callable[[nn.Module], nn.Module]
Difference = Callable[[Tensor, Tensor], float]

CLOSE = 2e-5
SMALL = {"image_size": 16, "patch_size": 4, "num_layers": 2, "num_heads": 3, "hidden_dim": 48, "mlp_dim": 96}
VITS: dict[str, dict[str, Any]] = {
    "plain": {"num_classes": 7},
    "hidden layer": {"num_classes": 7, "representation_size": 48},
    "narrow hidden layer": {"num_classes": 7, "representation_size": 20},
    "other sizes": {"num_classes": 3, "image_size": 24, "patch_size": 8, "num_layers": 3, "num_heads": 2}
    | {"hidden_dim": 64, "mlp_dim": 100},
}
vits = pytest.mark.parametrize("sizes", VITS.values(), ids=VITS)


@pytest.fixture(scope="module")
def vision() -> Iterator[ModuleType]:
    if find_spec("torchvision") is None:
        pytest.skip("torchvision is not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield pytest.importorskip("torchvision.models.vision_transformer", exc_type=ImportError)


def pictures(side: int) -> Tensor:
    return 2 * torch.rand(2, 3, side, side, generator=torch.Generator().manual_seed(1)) - 1


@vits
def test_a_vit_agrees_both_ways(
    sizes: dict[str, Any], vision: ModuleType, randomise: Randomise, difference: Difference, tmp_path: Path
) -> None:
    full = SMALL | sizes
    theirs, x = randomise(vision.VisionTransformer(**full)), pictures(full["image_size"])
    torch.save(theirs.state_dict(), tmp_path / "theirs.pth")
    ours = patchwords.load(tmp_path / "theirs.pth", heads=full["num_heads"]).eval()
    assert difference(ours(x), theirs(x)) <= CLOSE

    ours = randomise(build(ours.config))
    with torch.no_grad():
        for parameter in ours.parameters():
            parameter.mul_(1.1)  # so that these are not their weights again
    convert(
        Checkpoint(Card(model=ours.config), dict(ours.state_dict()), "native"), tmp_path / "ours.pth", "torchvision"
    )
    written, wanted = files.read(tmp_path / "ours.pth").tensors, theirs.state_dict()
    assert {k: v.shape for k, v in written.items()} == {k: v.shape for k, v in wanted.items()}
    theirs.load_state_dict(written, strict=True)
    assert difference(theirs(x), ours(x)) <= CLOSE


@pytest.mark.parametrize("side", [12, 24, 36])
def test_positions_loaded_the_librarys_way_are_those_it_makes(
    side: int, vision: ModuleType, randomise: Randomise, difference: Difference, tmp_path: Path
) -> None:
    theirs = randomise(vision.VisionTransformer(**SMALL, num_classes=7))
    torch.save(theirs.state_dict(), tmp_path / "theirs.pth")
    resized = vision.interpolate_embeddings(side, 4, theirs.state_dict())
    larger = vision.VisionTransformer(**SMALL | {"image_size": side}, num_classes=7).eval()
    larger.load_state_dict(resized)
    ours = patchwords.load(tmp_path / "theirs.pth", heads=3, image=side, positions="torchvision").eval()
    assert difference(ours(pictures(side)), larger(pictures(side))) <= CLOSE


def test_its_files_are_prepared_with_the_statistics_of_imagenet(
    vision: ModuleType, randomise: Randomise, tmp_path: Path
) -> None:
    torch.save(randomise(vision.VisionTransformer(**SMALL)).state_dict(), tmp_path / "theirs.pth")
    preprocess = open_checkpoint(tmp_path / "theirs.pth", heads=3).card.preprocess
    assert preprocess == replace(IMAGENET, size=(16, 16))
    assert preprocess.mean == (0.485, 0.456, 0.406)
