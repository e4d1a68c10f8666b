"""A training in a folder of a study: begun once, gone on with where it stopped, lost for good where it diverged."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from patchwords.errors import NonFiniteError
from patchwords.studies import below
from patchwords.studies.cell import Cell
from patchwords.training import recipe as recipes
from patchwords.training.watch import Log


@pytest.fixture
def learn(cells: list[Cell], tmp_path: Path) -> Callable[..., Path]:
    """`learn(watcher=..., **changes)` trains the first of the cells in the folder `run`."""

    def train(watcher: Any = None, **changes: Any) -> Path:
        recipe = recipes.read(cells[0].recipe, changes)
        options = {"called": "shades", "device": "cpu", "watcher": watcher or Log(), "again": "again"}
        assert below.learn(tmp_path / "run", cells[0].data, recipe, **options) == 0
        return tmp_path / "run"

    return train


class Leave(Log):
    """As killed in the second step."""

    def step(self, done: int, total: int) -> None:
        if done == 2:
            raise KeyboardInterrupt


def test_scores_are_told_and_checkpoints_removed_at_the_end(learn: Callable[..., Path]) -> None:
    place = learn()
    assert below.has_ended(place)
    assert (place / "checkpoints").exists()
    assert below.ended(place) == json.loads((place / "run.json").read_text())["scores"]
    assert not (place / "checkpoints").exists()
    assert below.ended(place)["accuracy"] >= 0  # asked again


def test_it_goes_on_from_where_it_stopped(learn: Callable[..., Path], notes: Any, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        learn(Leave(), duration="4 steps")
    assert not below.has_ended(tmp_path / "run")
    place = learn(notes, duration="4 steps")
    assert "going on after step" in notes.said
    assert below.has_ended(place)


def test_what_was_killed_before_its_first_checkpoint_begins_anew(learn: Callable[..., Path], tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "recipe.toml").write_text("half of ")
    assert below.has_ended(learn())
    assert "half of" not in (tmp_path / "run" / "recipe.toml").read_text()


def test_a_loss_that_became_infinite_is_an_end(learn: Callable[..., Path]) -> None:
    place = learn(**{"duration": "4 steps", "clip": 0.0, "optimizer.kind": "sgd", "optimizer.lr": 3e38})
    assert below.has_ended(place)
    with pytest.raises(NonFiniteError, match="step"):
        below.ended(place)
    with pytest.raises(NonFiniteError, match="step"):  # for good
        below.ended(place)
    assert not (place / "checkpoints").exists()


def test_it_has_ended_when_its_report_is_there(learn: Callable[..., Path]) -> None:
    place = learn()
    (place / "report.html").unlink()
    assert not below.has_ended(place)
    assert below.has_ended(learn())
    assert not below.has_ended(place / "nowhere")


def test_it_says_how_all_of_the_study_goes_on(learn: Callable[..., Path]) -> None:
    run = json.loads((learn() / "run.json").read_text())
    assert (run["data"], run["again"]) == ("shades", "again")


def test_it_is_told_where_its_data_lies_now(learn: Callable[..., Path]) -> None:
    place = learn()
    below.tell(place, "elsewhere")
    assert json.loads((place / "run.json").read_text())["data"] == "elsewhere"
    below.tell(place / "not begun", "elsewhere")
    assert not (place / "not begun").exists()
