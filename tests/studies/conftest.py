"""Squares to tell apart, a grid of no time at all, and results that are made up where only their scores matter."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from patchwords.data.sources.arrays import Arrays
from patchwords.data.sources.source import Data
from patchwords.studies import grid as grids
from patchwords.studies.catalogue import planned
from patchwords.studies.cell import Cell, each_once
from patchwords.studies.experiment import Experiment
from patchwords.studies.grid import Grid
from patchwords.studies.ground import Ground
from patchwords.studies.outcome import Bench, Outcome
from patchwords.studies.results import Results, Row
from patchwords.studies.shares import halves
from patchwords.training import recipe as recipes
from patchwords.training import train as training
from patchwords.training.watch import Log

GRID = """
recipe = "digits"
both = { batch = 8, image = 8, minutes = 1e-6, data = { workers = 0, crop.kind = "whole", mix.mixup = 0.0 } }
learn = { duration = "2 steps" }
tune = { duration = "1 steps", optimizer = { kind = "sgd", lr = 0.1 } }
mask = { objective.kind = "masked_patch" }
shots = 2

[models]
ViT = { model = "ViT-Digits/2", both.parts = { depth = 1, width = 16, mlp = 16, heads = 2, patch = [4, 4] } }
twin = { model = "ViT-Digits/4", both.parts = { depth = 1, width = 16, mlp = 16, heads = 2 }, learn.batch = 4 }

[study.data-size]
models = ["ViT", "twin"]
shares = [0.5, 1.0]

[study.transfer]
model = "ViT"
head = { optimizer.lr = 0.5 }
"""


@pytest.fixture(autouse=True, scope="module")
def quick() -> Iterator[None]:
    """Without the disk's patience, and with an empty page for a training's report."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        patch.setattr(training, "report", lambda folder, _: (folder / "report.html").touch())
        yield


def _square(path: str, classes: int, parts: Mapping[str, int]) -> dict[str, np.ndarray]:
    chance, arrays = np.random.default_rng(len(path)), {}
    for part, count in parts.items():
        labels = np.arange(count) % classes
        noise = chance.integers(0, 100, (count, 8, 8, 3))
        shades = 120 * labels[:, None, None, None] // (classes - 1)
        arrays[f"{part}_images"] = (noise + shades).astype(np.uint8)
        arrays[f"{part}_labels"] = labels
    return arrays


@pytest.fixture(scope="session")
def squares() -> Callable[..., Path]:
    """`squares(file, train=60, test=20)` writes noisy squares of some shades, so many in each part."""

    def write(path: Path, classes: int = 2, **parts: int) -> Path:
        np.savez(path, **_square(path.name, classes, parts))
        return path

    return write


@pytest.fixture(scope="session")
def shades() -> Callable[..., Data]:
    """`shades(4, train=40, val=12)` is such data, opened."""

    def make(classes: int = 4, **parts: int) -> Data:
        arrays = _square("shades", classes, parts)
        opened = {part: Arrays(arrays[f"{part}_images"], arrays[f"{part}_labels"], part) for part in parts}
        return Data(
            "shades", tuple(f"shade {number}" for number in range(classes)), **{"val": opened["train"], **opened}
        )

    return make


@pytest.fixture(scope="session")
def grid_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A grid of models that learn for a step or two."""
    path = tmp_path_factory.mktemp("grid") / "tiny.toml"
    path.write_text(GRID)
    return path


@pytest.fixture(scope="session")
def stand(shades: Callable[..., Data]) -> Callable[[Grid], Ground]:
    """`stand(grid)` is a ground of two shades to learn from, and two that judge."""
    first, target = halves(shades(train=40, val=12))
    return lambda grid: Ground(
        first=first,
        first_from="shades",
        target=target,
        target_from="shades",
        grid=grid,
        recipe=recipes.read(grid.recipe),
    )


@pytest.fixture(scope="session")
def cells(stand: Callable[[Grid], Ground], grid_file: Path) -> list[Cell]:
    """Four to train in a second: one, two that begin with it, and one that begins with nothing."""
    ground = stand(grids.read(str(grid_file), "transfer", {}))
    return each_once(planned("transfer", ground.grid).cells(ground, (0,)))


class Notes(Log):
    """A watcher that remembers what was said."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, remark: str) -> None:
        self.notes.append(remark)

    @property
    def said(self) -> str:
        return "\n".join(self.notes)


@pytest.fixture
def notes() -> Notes:
    return Notes()


@pytest.fixture
def bench(tmp_path: Path, notes: Notes) -> Bench:
    return Bench(folder=tmp_path, device="cpu", again="patchwords study x --resume there", watcher=notes)


Score = Callable[[Cell], Mapping[str, float] | None]


@pytest.fixture(scope="session")
def made_up_results(stand: Callable[[Grid], Ground]) -> Callable[..., tuple[Experiment, Results]]:
    """`made_up_results("head", score)` has a study of the grid for digits, with a score for each cell, or none."""

    def make(name: str, score: Score, seeds: Sequence[int] = (0,)) -> tuple[Experiment, Results]:
        ground = stand(grids.read("digits", name, {}))
        experiment = planned(name, ground.grid)
        rows = []
        for cell in each_once(experiment.cells(ground, seeds)):
            found = score(cell)
            usual = {"judged": 1000, "few_shot_judged": 1000, "steps": 10, "pictures": 20, "parameters": 30}
            numbers = {**usual, "exaflops": 1e-9, "seconds": 1.0, **(found or {})}
            outcome = Outcome(lost="step 7 gave a loss of inf") if found is None else Outcome(numbers=numbers)
            rows.append(Row(cell=cell, outcome=outcome))
        return experiment, Results(rows=rows)

    return make
