"""What a training would refuse is refused before there is one, of a model that has no memory yet."""

from typing import Any

import numpy as np
import pytest
import torch

from patchwords.data.sources.arrays import Arrays
from patchwords.data.sources.source import Data
from patchwords.errors import UsageError
from patchwords.models.build import configure
from patchwords.training.possible import expect_training
from patchwords.training.recipe import read

CPU = torch.device("cpu")


@pytest.fixture
def data() -> Data:
    source = Arrays(np.zeros((6, 16, 16, 1), dtype=np.uint8), np.arange(6) % 3, "train")
    return Data("three", ("a", "b", "c"), source, source, channels=1)


def expect(data: Data, model: str, change: dict[str, Any], recipe: str = "digits") -> None:
    chosen = read(recipe, change)
    classes = chosen.objective.classes(len(data.classes))
    expect_training(chosen, configure(model, classes=classes, image=16, channels=1), data, CPU)


@pytest.mark.parametrize(
    ("model", "change", "said"),
    [
        ("BiT-R26x1", {"objective": {"kind": "masked_patch"}, "best": "last"}, "hides patches of a ViT, .* a resnet"),
        ("ViT-Ti/8-map", {"objective": {"kind": "mae"}, "best": "last"}, "would not train pool"),
        ("BiT-R26x1", {"positions": "anew"}, '"anew" has nothing to start anew'),
        ("ViT-Ti/8", {"freeze": "blocks 13"}, "'blocks 13' is more than there are"),
        ("ViT-Ti/8", {"duration": "0 steps"}, "is no training"),
        ("ViT-Ti/8", {"batch": "auto", "duration": "0 steps"}, "is no training"),
        ("ViT-Ti/8", {"precision": "fp16"}, "needs a GPU"),
        ("ViT-Ti/8", {"data.glimpses.large": 1, "data.mix.mixup": 0.0}, "sees one crop of a picture"),
        ("ViT-Ti/8", {"objective": {"kind": "dino"}, "best": "last"}, r"needs further crops \(large\)"),
        ("ViT-Ti/8", {"objective": {"kind": "beit"}, "best": "last"}, "nobody says which words to learn"),
        ("ViT-Ti/8", {"objective": {"kind": "distill", "teacher": "nowhere"}}, "nowhere does not exist: give a"),
    ],
)
def test_what_would_be_refused_later_is_refused_now(model: str, change: dict[str, Any], said: str, data: Data) -> None:
    with pytest.raises(UsageError, match=said):
        expect(data, model, change)


@pytest.mark.parametrize(
    ("model", "recipe", "change"),
    [
        ("ViT-Digits/2", "digits", {"positions": "anew", "freeze": "blocks 2"}),
        ("ViT-Digits/2", "digits", {"batch": "auto"}),
        ("BiT-R26x1", "digits", {"freeze": "backbone"}),
        ("ViT-Digits/2", "digits-mae", {}),
        ("ViT-Digits/2", "digits-masked-patch", {}),
        ("ViT-Digits/2", "digits-dino", {"data.crop.kind": "random"}),
        ("Tokenizer-64/2", "digits-tokenizer", {}),
    ],
)
def test_what_can_be_trained_is_not_refused(model: str, recipe: str, change: dict[str, Any], data: Data) -> None:
    expect(data, model, change, recipe)


def test_nothing_is_computed_and_no_memory_is_needed(data: Data) -> None:
    expect(data, "ViT-G/8", {"objective": {"kind": "mae"}, "best": "last"})  # 7 GB of weights
