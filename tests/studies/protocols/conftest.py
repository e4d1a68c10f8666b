"""Tiny weights, and trainings that are recorded, or made up where only their scores matter."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import patchwords
from patchwords.data.sources.source import Data
from patchwords.errors import NonFiniteError
from patchwords.models.vit import ViTConfig
from patchwords.studies import below
from patchwords.training.recipe import Recipe
from patchwords.training.train import Run, train

TINY = {
    "image": 8,
    "batch": 8,
    "duration": "2 steps",
    "data.crop.kind": "whole",
    "data.workers": 0,
    "minutes": 1e-6,  # a checkpoint at every step
}


@pytest.fixture(scope="session")
def tiny() -> dict[str, Any]:
    """Settings for a training of no time at all."""
    return TINY


@pytest.fixture(scope="session")
def weights(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("weights") / "tiny.safetensors"
    config = ViTConfig(depth=1, width=16, mlp=16, heads=2, patch=(4, 4), image=(8, 8), classes=4)
    patchwords.save(config.build(), path)
    return str(path)


@dataclass
class Trainings:
    """The trainings of a study: where each was, on what, with which recipe, and which of them were resumed."""

    places: list[str] = field(default_factory=list)
    data: dict[str, Data] = field(default_factory=dict)
    recipes: dict[str, Recipe] = field(default_factory=dict)
    resumed: list[str] = field(default_factory=list)

    def seen(self, data: Data, recipe: Recipe, out: Path | None, resume: Path | None) -> Path:
        place = out or resume
        assert place
        self.places.append(place.name)
        self.data[place.name], self.recipes[place.name] = data, recipe
        self.resumed += [place.name] * (resume is not None)
        return place

    def names(self, place: str, part: str) -> set[str]:
        """The pictures of a part of a training's data."""
        source = self.data[place].splits[part]
        return {source.name(index) for index in range(len(source))}


@pytest.fixture
def trainings(monkeypatch: pytest.MonkeyPatch) -> Trainings:
    """Real ones, recorded."""
    kept = Trainings()

    def recorded(data: Data, *, recipe: Recipe, out: Path | None, resume: Path | None, **options: Any) -> Run:
        kept.seen(data, recipe, out, resume)
        return train(data, recipe=recipe, out=out, resume=resume, **options)

    monkeypatch.setattr(below, "train", recorded)
    return kept


Scores = Callable[[Recipe, Data], tuple[float, float]]


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> Callable[[Scores], Trainings]:
    """`made_up(scores)` puts results in place of trainings: the accuracy and loss for a recipe and data."""

    def put(scores: Scores) -> Trainings:
        kept = Trainings()

        def pretend(data: Data, *, recipe: Recipe, out: Path | None, resume: Path | None, **_: Any) -> Run:
            place = kept.seen(data, recipe, out, resume)
            accuracy, loss = scores(recipe, data)
            place.mkdir(parents=True)
            (place / "recipe.toml").touch()
            (place / "run.json").write_text("{}")
            if loss == float("inf"):
                raise NonFiniteError("step 7 gave a loss of inf; start anew with a lower optimizer.lr")
            result = {"status": "finished", "scores": {"accuracy": accuracy, "loss": loss}}
            (place / "run.json").write_text(json.dumps(result))
            (place / "report.html").touch()
            return Run(place, None, None)  # type: ignore[arg-type]

        monkeypatch.setattr(below, "train", pretend)
        return kept

    return put
