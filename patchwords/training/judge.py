"""How a run is judged: by the model's answers to the validation pictures, or, without labels, by its own loss there."""

import abc
from collections.abc import Generator
from dataclasses import dataclass, field
from itertools import starmap
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from patchwords.data.broken import Broken, Damage
from patchwords.data.cache import Held
from patchwords.data.finish import targets
from patchwords.data.loader import Prepare
from patchwords.data.sources.source import Data
from patchwords.data.transforms import normalise
from patchwords.errors import DataError, NonFiniteError
from patchwords.evaluation.classify import Scores, classify
from patchwords.objectives.objective import Objective
from patchwords.speed.precision import autocast
from patchwords.training.average import Average
from patchwords.training.distributed import World
from patchwords.training.evaluate import answers
from patchwords.training.feed import judged, judged_held
from patchwords.training.recipe import Recipe
from patchwords.training.signals import Wish
from patchwords.training.update import Loaded, onto
from patchwords.weights.card import Card, Loss


@dataclass(frozen=True)
class Result:
    """The numbers of a model on some pictures; where it answers to labels, its scores and answers too."""

    numbers: dict[str, float]
    scores: Scores | None = None
    answers: dict[str, NDArray[Any]] = field(default_factory=dict)  # logits, labels, indices


@dataclass
class Judge(abc.ABC):
    """Looks at the model, or at its average where there is one."""

    recipe: Recipe
    data: Data
    world: World
    wish: Wish
    broken: Broken
    objective: Objective
    card: Card
    average: Average | None
    cache: Held | None  # the validation pictures, where they are kept

    def __call__(self) -> dict[str, float] | None:
        """The scores of the model as it is, or None when it was asked to stop."""
        if self.average is None:
            return self._told()
        with self.average.applied(self.objective.model):
            return self._told()

    def _told(self) -> dict[str, float] | None:
        found = self.result()
        if found is None:
            return None
        for found_there in self.world.gathered(self.broken.found):
            self.broken.add(starmap(Damage, found_there.items()))
        told: dict[str, float] = self.world.told(found.numbers)  # one opinion, to the last bit, of what is best
        return told

    @abc.abstractmethod
    def result(self, split: str = "val") -> Result | None:
        """What the model makes of all pictures of a split; None when it was asked to stop."""

    def pictures(self, split: str) -> Generator[Loaded]:
        """This process's part of them, as evaluation sees them."""
        if self.cache is not None and split == "val":
            return judged_held(self.cache, self.world)
        prepare = Prepare(self.data.splits[split], self.card.preprocess, self.card.model.channels)
        return judged(prepare, self.world, self.recipe.data.loading, self.broken)


@dataclass
class ByAnswers(Judge):
    """The model's logits against the labels."""

    def result(self, split: str = "val") -> Result | None:
        found = answers(
            self.objective.model,
            self.pictures(split),
            self.card.preprocess,
            self.recipe.precision,
            self.world,
            self.wish,
        )
        if found is None:
            return None
        logits, labels, indices = found
        if not np.isfinite(logits).all():
            raise NonFiniteError("the model's answers are not finite any more, and were not saved: lower optimizer.lr")
        loss: Loss = self.card.loss
        scores = classify(logits, labels, loss=loss)
        return Result(scores.numbers(), scores, {"logits": logits, "labels": labels, "indices": indices})


@dataclass
class ByLoss(Judge):
    """The objective itself, on pictures that it does not learn from; their masks and the like are always the same."""

    def result(self, split: str = "val") -> Result | None:
        sums, count = self._sums(split)
        if self.world.most(self.wish.number):
            return None
        every = self.world.gathered((sums, count))
        total = sum(counted for _, counted in every)
        if not total:
            raise DataError(f"not one picture of {split} could be read: look at them with `patchwords check`")
        names = list(dict.fromkeys(name for found, _ in every for name in found))
        numbers = {name: sum(found.get(name, 0.0) for found, _ in every) / total for name in names}
        if not np.isfinite(list(numbers.values())).all():
            raise NonFiniteError("the loss of the validation pictures is not finite any more: lower optimizer.lr")
        return Result(numbers)

    @torch.no_grad()
    def _sums(self, split: str) -> tuple[dict[str, float], int]:
        """Of this process's part: loss and numbers, weighted by the pictures, and how many these are."""
        self.objective.eval()
        rows: list[dict[str, Tensor]] = []
        counts: list[int] = []
        for loaded in self.pictures(split):
            if self.wish.number:
                break
            if not loaded.labels.shape[0]:
                continue  # none of them could be read, and nothing has no mean
            with autocast(self.recipe.precision, self.world.device):
                loss, numbers = self.objective.forward(self._batch(loaded))  # not as compiled: sizes differ
            rows.append({"loss": loss, **numbers})
            counts.append(loaded.labels.shape[0])
        return _weighed(rows, counts), sum(counts)

    def _batch(self, loaded: Loaded) -> dict[str, Tensor]:
        device = self.world.device
        images = normalise(loaded.images.to(device, non_blocking=True), self.card.preprocess)
        target = targets(loaded.labels.to(device, non_blocking=True), len(self.data.classes))
        drawn = self.objective.drawn(self.recipe.seed, loaded.views, loaded.indices)
        return {"image": images, "target": target} | onto(drawn, device)


def _weighed(rows: list[dict[str, Tensor]], counts: list[int]) -> dict[str, float]:
    """The sum over all batches of each number times the pictures; the device is waited for once."""
    if not rows:
        return {}
    table = torch.stack([torch.stack([value.float() for value in row.values()]) for row in rows])  # (batches, numbers)
    sums = torch.tensor(counts, dtype=torch.float64) @ table.cpu().double()
    return dict(zip(rows[0], sums.tolist(), strict=True))
