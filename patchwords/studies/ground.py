"""What a study stands on: pictures to learn from first, pictures to be judged by, models, and how they are trained."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from patchwords import settings
from patchwords.data.sources.source import Data
from patchwords.errors import DataError
from patchwords.studies.cell import At, Cell, Stage
from patchwords.studies.grid import ONCE, Grid
from patchwords.studies.shares import portion
from patchwords.training import recipe as recipes
from patchwords.training.recipe import Recipe

# What a file holds is fine-tuned with a head of zeros (section 3.2), whatever head the grid's models learn with.
BEHEADED: dict[str, Any] = {"model": "", "parts.head": {}}
ANEW = {"parts.head": {"kind": "linear"}}


@dataclass(frozen=True, kw_only=True, eq=False)
class Ground:
    """`first` is learned from, and judges what has; then `target` is, and judges what was fine-tuned."""

    first: Data
    first_from: str  # what finds it again
    target: Data
    target_from: str
    grid: Grid
    recipe: Recipe  # of every training, but for what the grid and the study change
    weights: str = ""  # that are asked about, in the study of any weights

    def __post_init__(self) -> None:
        counts = np.bincount(self.target.train.labels, minlength=len(self.target.classes))
        if not self.weights and counts.min() < self.grid.shots:
            rarest = self.target.classes[int(counts.argmin())]
            raise DataError(
                f"class {rarest!r} has {counts.min()} pictures to learn from, too few for {self.grid.shots} shots: "
                f"add some, or have fewer judge the features (--set shots={max(1, int(counts.min()))})"
            )
        if self.first.channels != self.target.channels and {self.first.channels, self.target.channels} != {1, 3}:
            raise DataError(
                f"{self.first.name} has pictures of {self.first.channels} channels and {self.target.name} of "
                f"{self.target.channels}, so what learns from the one cannot be judged by the other: give another"
            )

    def learn(self, at: At, seed: int, change: Mapping[str, Any] | None = None, share: float = 1.0) -> Cell:
        """From scratch on a share of the first pictures; the features are judged by a few pictures of the target."""
        member = self.grid.member(str(at["model"]))
        recipe = self._recipe(seed, {"model": member.model}, self.grid.learn, member.both, member.learn, change)
        return Cell(
            stage="pre-training",
            at=at,
            seed=seed,
            recipe=recipe,
            data=portion(self.first, share, seed),
            called=self.first_from,
            shots=self.grid.shots,
            frozen=self.target,
        )

    def tune(
        self, after: Cell, at: At | None = None, change: Mapping[str, Any] | None = None, share: float = 1.0
    ) -> Cell:
        """What a cell has learned, fine-tuned to a share of the target."""
        member = self.grid.member(str(after.at["model"]))
        recipe = self._recipe(after.seed, self.grid.tune, member.both, member.tune, BEHEADED, ANEW, change)
        return self._judged("fine-tuning", {**after.at, **(at or {})}, recipe, share, after)

    def adopt(self, at: At, seed: int, change: Mapping[str, Any] | None = None) -> Cell:
        """The weights that are asked about, fine-tuned to the target."""
        member = self.grid.member(str(at["model"]))
        recipe = self._recipe(seed, self.grid.tune, member.both, {"weights": self.weights}, BEHEADED, ANEW, change)
        return self._judged("fine-tuning", at, recipe)

    def scratch(self, at: At, seed: int, change: Mapping[str, Any] | None = None, share: float = 1.0) -> Cell:
        """A share of the target's pictures alone, with nothing learned before."""
        member = self.grid.member(str(at["model"]))
        recipe = self._recipe(seed, {"model": member.model}, self.grid.learn, member.both, member.learn, change)
        return self._judged("from scratch", at, recipe, share)

    def _judged(self, stage: Stage, at: At, recipe: Recipe, share: float = 1.0, after: Cell | None = None) -> Cell:
        return Cell(
            stage=stage,
            at=at,
            seed=recipe.seed,
            recipe=recipe,
            data=portion(self.target, share, recipe.seed),
            called=self.target_from,
            after=after,
        )

    def _recipe(self, seed: int, *tables: Mapping[str, Any] | None) -> Recipe:
        """The grid's recipe with one table after the other over it: a part of another kind starts afresh."""
        recipe = recipes.read(self.recipe, {**ONCE, "seed": seed})
        for table in (self.grid.both, *tables):
            emptied: dict[str, Any] = {key: {} for key, value in (table or {}).items() if value == {}}
            recipe = recipes.read(recipe, emptied | settings.dotted(table or {}))
        return recipe
