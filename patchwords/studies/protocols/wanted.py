"""What a person wants of a protocol, and what that comes to: the recipe, the model, the pictures, the terms."""

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from patchwords import settings
from patchwords.data.sources.door import open_data
from patchwords.data.sources.source import Data
from patchwords.errors import ModelError, UsageError
from patchwords.models.names import Config
from patchwords.studies.protocols.study import FILE, Study, Terms, compare, stored
from patchwords.training import recipe as recipes
from patchwords.training.pictures import look
from patchwords.training.recipe import Recipe
from patchwords.training.run.folder import RunFolder
from patchwords.training.run.same import unchanged
from patchwords.training.watch import Watcher
from patchwords.weights import store
from patchwords.weights.subject import RANDOM, open_subject

# What a protocol sets itself, and where a person may say so instead.
OWN = {
    "weights": "it is the model that is asked about",
    "optimizer.lr": "give rates",
    "seed": "give seeds",
    "evaluate": "it judges once, after the last step",
    "best": "it judges once, after the last step",
    "patience": "it judges once, after the last step",
}


@dataclass(frozen=True, kw_only=True)
class Weights:
    """What is fine-tuned: the model that it is of, and its SHA-256."""

    model: Config
    digest: str


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """The arguments that the protocols share, as they were given."""

    protocol: str
    weights: str
    recipe: str | None
    change: Mapping[str, Any]
    rates: Sequence[float] | None
    seeds: Sequence[int] | None
    device: str
    out: Path | None
    resume: Path | None
    offline: bool
    mirror: str
    watcher: Watcher

    def __post_init__(self) -> None:
        if int(os.environ.get("WORLD_SIZE", "1")) > 1:
            raise UsageError(f"{self.protocol} is many trainings in one process: start it without torchrun")
        if self.resume is not None and self.out is not None:
            raise UsageError(f"--out {self.out} does not apply to --resume: the study stays in {self.resume}")
        for key, reason in OWN.items():
            if key in settings.dotted(self.change):
                raise UsageError(f"{key} is not for {self.protocol} to be told: {reason}")

    @cached_property
    def before(self) -> Terms | None:
        """The terms of the study to go on with."""
        return None if self.resume is None else stored(self.resume, self.protocol)

    def settled(self, usual: str) -> Recipe:
        """The recipe of all trainings: the one that was named or the usual one, with the protocol's own settings."""
        head = {"parts.head": {"kind": "linear"}}  # of zeros (section 3.2), even where the classes are known already
        changes = {**head, **self.change, "weights": self.weights, "evaluate": "100%"}  # the last model is the best
        if self.before:
            return unchanged(self.before.recipe, self.recipe, changes)
        return recipes.read(self.recipe or usual, changes)

    def opened(self, given: str) -> Data:
        """Undivided: which pictures are for what is the protocol's affair."""
        fetching = partial(self.watcher.working, f"downloading {given}")
        return open_data(given, split=None, offline=self.offline, mirror=self.mirror, progress=fetching)

    def brought(self, recipe: Recipe) -> Weights:
        """The weights that are asked about, with what a person should hear of it."""
        fetching = partial(self.watcher.working, f"downloading {self.weights}")
        fetch = partial(store.fetch, offline=self.offline, mirror=self.mirror, progress=fetching)
        subject = open_subject(self.weights, image=recipe.image, fetch=fetch)
        if subject.card.source == RANDOM:
            raise ModelError(f"{self.weights} is a name alone, and {self.protocol} fine-tunes weights: give some")
        for note in subject.notes:
            self.watcher.note(note)
        return Weights(model=subject.card.model, digest=subject.digest)

    def look(self, data: Data, recipe: Recipe) -> None:
        """Tells what a person should know of the pictures, those that judge among them."""
        for note in data.notes:
            self.watcher.note(note)
        look(data, recipe, self.watcher)

    def terms(
        self, recipe: Recipe, weights: Weights, data: Sequence[Data], *, rates: Sequence[float], seeds: Sequence[int]
    ) -> Terms:
        """The terms with these rates and seeds where others were not given; those of before where it goes on."""
        before = self.before
        if before:
            rates, seeds = before.rates, before.seeds
        terms = Terms(
            protocol=self.protocol,
            recipe=recipe,
            weights=weights.digest,
            data=tuple(each.digest() for each in data),
            rates=tuple(map(float, rates if self.rates is None else self.rates)),
            seeds=tuple(seeds if self.seeds is None else self.seeds),
        )
        if before:
            compare(before, terms)
        return terms

    @contextmanager
    def begun(self, terms: Terms, name: str, called: str) -> Iterator[Study]:
        """The study in its folder, a new one or the one to resume, which nobody else may work in meanwhile.

        `called` is the data on the command line.
        """
        words = ("patchwords", "evaluate", self.weights, called, "--protocol", self.protocol)
        with RunFolder.create(self.out, name) if self.resume is None else RunFolder.reopen(self.resume, FILE) as folder:
            if self.resume is None:
                folder.write_json(FILE, settings.write(terms))
            again = shlex.join((*words, "--resume", str(folder.path)))
            yield Study(folder, terms, self.device, self.watcher, again)
