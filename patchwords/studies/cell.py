"""A cell of a study's table: one training, where its numbers stand, and what it begins with."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from patchwords import settings
from patchwords.data.sources.source import Data
from patchwords.errors import UsageError
from patchwords.models.build import configure
from patchwords.models.names import Config
from patchwords.training.recipe import Recipe

Stage = Literal["pre-training", "fine-tuning", "from scratch"]
At = Mapping[str, str | float]  # what a study varies, and its value here


@dataclass(frozen=True, kw_only=True, eq=False)
class Cell:
    """What is trained, on what; its model is in the folder that is called as it is."""

    stage: Stage
    at: At
    seed: int
    recipe: Recipe  # but for the weights, where it begins with another cell's model
    data: Data
    called: str  # what finds the data again
    after: "Cell | None" = None
    shots: int = 0  # of each class of `frozen` that judge its features as they are; 0 for none
    frozen: Data | None = None

    @property
    def name(self) -> str:
        """Of its folder."""
        words = [self.stage, *map(str, self.at.values()), f"seed {self.seed}"]
        return re.sub(r"[^\w.]+", "-", " ".join(words)).strip("-")

    @property
    def config(self) -> Config | None:
        """The model as it will be; None where a file of weights says that. What cannot be built is refused."""
        *_, root = self.chain
        if not root.recipe.model:
            return None
        image = self.recipe.image or root.recipe.image
        classes = self.recipe.objective.classes(len(self.data.classes))
        config = configure(root.recipe.model, classes=classes, image=image, channels=self.data.channels)
        return settings.change(config, settings.dotted(root.recipe.parts))

    @property
    def chain(self) -> Iterator["Cell"]:
        """The cell and all that come before it."""
        yield self
        if self.after:
            yield from self.after.chain


def each_once(cells: Iterable[Cell]) -> list[Cell]:
    """Every cell that is needed, by its folder, after the one that it begins with."""
    found: dict[str, Cell] = {}
    for cell in cells:
        for part in reversed(list(cell.chain)):
            folder = part.name.casefold()  # some systems do not tell ViT from vit
            if found.setdefault(folder, part).at != part.at:
                raise UsageError(f"two trainings would share the folder {part.name}: give their models other names")
    return list(found.values())
