"""The model beside weights that are asked about: of the same shape, the same pictures, prepared alike."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import patchwords
from patchwords import settings
from patchwords.data.preprocess import Preprocess
from patchwords.errors import ModelError
from patchwords.models.build import configure
from patchwords.models.names import NAMES, Config, read
from patchwords.models.resnet import ResNetConfig
from patchwords.models.tokenizer import TokenizerConfig, tokenizer
from patchwords.models.vit import ViTConfig
from patchwords.studies.given import member
from patchwords.studies.study import study
from patchwords.weights.card import Card
from patchwords.weights.checkpoint import open_checkpoint

CLASSIFIERS = [name for name in NAMES if not isinstance(read(name), TokenizerConfig)]


def built(config: Config) -> Config:
    """The model that is built for weights of this one, as a recipe builds it."""
    found = member(Card(model=config), "x")
    known = configure(found.model, image=config.image, channels=config.channels, classes=config.classes)
    return settings.change(known, settings.dotted(found.learn["parts"]))


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_every_model_is_known_by_its_name(name: str) -> None:
    found = member(Card(model=configure(name, classes=7)), "x")
    assert (found.model, found.learn["parts"]) == (name, {})


@pytest.mark.parametrize(("name", "image"), [("ViT-H/14", 378), ("ViT-B/16", 384), ("R50x1", 128), ("ViT-S/32", 64)])
def test_models_are_known_at_other_sizes_of_the_picture(name: str, image: int) -> None:
    found = member(Card(model=configure(name, image=image)), "x")
    assert (found.model, found.learn["parts"], found.both["image"]) == (name, {}, [image, image])


@pytest.mark.parametrize(
    "config",
    [
        ViTConfig(depth=1, width=16, mlp=16, heads=2, patch=(4, 4), image=(8, 8), classes=4),
        replace(read("ViT-Ti/16"), stochastic_depth=0.1),
        replace(read("ViT-S/16"), layer_scale=1e-4),
        ResNetConfig(units=(2, 2, 2, 2)),
        ResNetConfig(units=(1, 1), width=32, image=(16, 16), channels=1, classes=10),
    ],
)
def test_what_no_name_stands_for_is_stated_as_parts(config: Any) -> None:
    assert built(config) == config


def test_pictures_are_prepared_as_for_the_weights() -> None:
    card = Card(model=read("ViT-Ti/16"), preprocess=Preprocess(fit="crop", crop=0.9, mean=(0.4,), deviation=(0.2,)))
    said = member(card, "x").learn["data"]
    assert said == {"fit": "crop", "share": 0.9, "interpolation": "bilinear", "mean": [0.4], "deviation": [0.2]}


def test_what_is_no_classifier_is_refused() -> None:
    with pytest.raises(ModelError, match=r"no model like that of words\.safetensors"):
        member(Card(model=tokenizer(16, 4, (16, 16))), "words.safetensors")


def test_from_scratch_it_is_the_same_model_of_the_same_pictures(squares: Any, grid_file: Path, tmp_path: Path) -> None:
    config = ViTConfig(depth=1, width=16, mlp=16, heads=2, patch=(4, 4), image=(16, 16), classes=4)
    patchwords.save(config.build(), tmp_path / "odd.safetensors")
    data = squares(tmp_path / "squares.npz", train=16, test=8)
    out = tmp_path / "out"
    weights = tmp_path / "odd.safetensors"
    done = study("transfer", data, weights=weights, grid=grid_file, device="cpu", out=out)
    cards = [open_checkpoint(done.folder / row.cell.name / "model.safetensors").card for row in done.results.rows]
    assert len(cards) == 3
    assert {card.model.image for card in cards} == {(16, 16)}
    assert len({(card.model.depth, card.model.width, card.model.patch) for card in cards}) == 1
    assert len({card.preprocess for card in cards}) == 1
