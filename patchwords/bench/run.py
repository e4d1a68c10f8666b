"""A training run of ours as it is, put together from a recipe and fed batch by batch, with nothing kept of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from patchwords.data.sources.files import Files
from patchwords.data.sources.names import Names
from patchwords.data.sources.source import Data, Source, Subset
from patchwords.training import optimizer
from patchwords.training.assemble import Parts, Setting, parts
from patchwords.training.distributed import World
from patchwords.training.fit import settled
from patchwords.training.recipe import Recipe, read
from patchwords.training.signals import Wish
from patchwords.training.start import begin
from patchwords.training.update import Loaded
from patchwords.training.watch import Moment


@dataclass(frozen=True)
class Listener:
    """Hears what a run remarks, and nothing else."""

    note: Callable[[str], None]

    def step(self, done: int, total: int) -> None:
        pass

    def moment(self, moment: Moment) -> None:
        pass

    def scored(self, row: dict[str, Any], best: bool) -> None:
        pass

    def working(self, what: str, done: int, total: int) -> None:
        pass


@dataclass(frozen=True)
class Run:
    """The parts, and the highest learning rate."""

    parts: Parts
    rate: float

    def step(self, loaded: Loaded, number: int) -> torch.Tensor:
        """An update as the loop makes it, without looking at the result; the loss."""
        optimizer.rates(self.parts.update.optimizer, self.rate)
        numbers, _ = self.parts.update(loaded, number, 0.0)
        if self.parts.average:
            self.parts.average.update(number)
        return numbers["loss"]


def begun(data: Data, changes: Mapping[str, Any], device: torch.device, note: Callable[[str], None]) -> Run:
    """Of the recipe with these settings and no others, at its first step."""
    recipe: Recipe = read(Recipe(), changes)
    here = World(0, 1, device)
    model, card = begin(recipe, data)
    recipe = settled(recipe, model, len(data.train), here)
    assert isinstance(recipe.batch, int)
    made = parts(Setting(recipe, data, here, Listener(note), Wish()), model, card)
    made.objective.train()
    return Run(made, optimizer.scaled(recipe.optimizer, recipe.batch))


def of_files(folder: Path) -> Data:
    """The class folders that `made.photographs` leaves, all of them to learn from."""
    classes = sorted(place.name for place in folder.iterdir())
    paths = [(f"{name}/{file.name}", label) for label, name in enumerate(classes) for file in (folder / name).iterdir()]
    source = Files(folder, Names([path for path, _ in paths]), np.array([label for _, label in paths]))
    return of_source(folder.name, tuple(classes), source)


def of_source(name: str, classes: tuple[str, ...], source: Source) -> Data:
    """A data set whose validation nobody looks at."""
    return Data(name, classes, source, Subset(source, [0]))
