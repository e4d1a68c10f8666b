"""Studies of the packaged grids over a few pictures, and results that are made up, so that nothing need be trained."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import pytest

from patchwords import settings
from patchwords.data.sources.arrays import Arrays
from patchwords.data.sources.source import Data
from patchwords.pages.both import Both
from patchwords.studies import grid as grids
from patchwords.studies.catalogue import planned
from patchwords.studies.cell import Cell, each_once
from patchwords.studies.experiment import Experiment, Finding
from patchwords.studies.ground import Ground
from patchwords.studies.outcome import Outcome
from patchwords.studies.results import Results, Row
from patchwords.studies.shares import halves
from patchwords.studies.wording import OTHER, SAME, UNCLEAR
from patchwords.training import recipe as recipes

SEEDS = (0, 1, 2)
USUAL = {"judged": 3_333, "few_shot_judged": 3_333, "steps": 10, "pictures": 20, "parameters": 30, "exaflops": 1e-6}
LOST = "step 7 gave a loss of inf"
VERDICTS = (SAME, OTHER, UNCLEAR)

Scores = Callable[[Cell], Mapping[str, float] | None]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A study as a grid has it, with what it stands on."""

    experiment: Experiment
    ground: Ground
    made: dict[tuple[int, ...], list[Cell]] = field(default_factory=dict)

    def cells(self, *seeds: int, **at: Any) -> list[Cell]:
        """Those with these values, the stage among them; the same ones each time."""
        if seeds not in self.made:
            self.made[seeds] = each_once(self.experiment.cells(self.ground, seeds or (0,)))
        return [cell for cell in self.made[seeds] if at.items() <= {"stage": cell.stage, **cell.at}.items()]

    def results(self, scores: Scores, *seeds: int) -> Results:
        """As if every cell had come to these numbers, and had lost its way where there are none."""
        cells = self.cells(*(seeds or SEEDS))
        return Results(rows=[Row(cell=cell, outcome=_outcome(scores(cell))) for cell in cells])


def _outcome(found: Mapping[str, float] | None) -> Outcome:
    return Outcome(lost=LOST) if found is None else Outcome(numbers={**USUAL, **found})


def _data(classes: int = 6, each: int = 20) -> Data:
    names = tuple(f"shade {number}" for number in range(classes))
    return Data("shades", names, train=_part("train", classes, each), val=_part("val", classes, 3))


def _part(name: str, classes: int, each: int) -> Arrays:
    labels = np.tile(np.arange(classes), each)
    return Arrays(np.zeros((len(labels), 8, 8, 3), dtype=np.uint8), labels, name)


@pytest.fixture(params=grids.names())
def grid(request: pytest.FixtureRequest) -> str:
    """Each packaged grid in turn."""
    return str(request.param)


@pytest.fixture(scope="session")
def plan() -> Callable[..., Plan]:
    """`plan("head")` is the study for digits, `plan("head", "photos")` that for photos."""
    first, target = halves(_data())

    @cache
    def make(name: str, grid: str = "digits", weights: str = "") -> Plan:
        read = grids.read(grid, name, {})
        recipe = recipes.read(read.recipe)
        ground = Ground(
            first=first, first_from="a", target=target, target_from="b", grid=read, recipe=recipe, weights=weights
        )
        return Plan(experiment=planned(name, read), ground=ground)

    return make


@pytest.fixture(scope="session")
def differ() -> Callable[[Iterable[Cell]], set[str]]:
    """The keys that are not the same in the recipes of all these cells."""

    def find(cells: Iterable[Cell]) -> set[str]:
        recipes = [settings.dotted(settings.write(cell.recipe)) for cell in cells]
        assert recipes
        keys = {key for recipe in recipes for key in recipe}
        return {key for key in keys if any(recipe.get(key) != recipes[0].get(key) for recipe in recipes)}

    return find


@pytest.fixture(scope="session")
def verdict() -> Callable[[Finding], Both]:
    """What a finding says of the paper, the same in both languages."""

    def find(finding: Finding) -> Both:
        for words in finding:
            assert re.search(r"[一-鿿]", words.chinese)
            assert not re.search(r"[一-鿿]", words.english)
            assert words.english[0].isupper()
            assert words.english.endswith(".")
            assert words.chinese.endswith("。")
        (said,) = (each for each in VERDICTS if finding.paper.english.startswith(f"{each.english}: "))
        assert finding.paper.chinese.startswith(f"{said.chinese}\uff1a")
        return said

    return find
