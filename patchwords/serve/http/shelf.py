"""The models of a service by name, each made ready once, with its lanes to the thread that asks them."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from patchwords.data.sources.source import Pixels
from patchwords.errors import UsageError
from patchwords.serve.http.refusal import Refused
from patchwords.serve.prediction import Prediction
from patchwords.serve.predictor import Predictor
from patchwords.serve.queue.batcher import Batcher
from patchwords.serve.queue.questions import Questions
from patchwords.serve.queue.shapes import Shapes
from patchwords.serve.queue.turns import Turns
from patchwords.settings import nearest

NAME = r"[^/\s?#%\\\x00-\x1f\x7f]([^/?#%\\\x00-\x1f\x7f]{0,98}[^/\s?#%\\\x00-\x1f\x7f])?"  # as an address can hold it
Heard = Callable[[str, int, float], None]  # a model's name, pictures, seconds


@dataclass(frozen=True, kw_only=True)
class Batching:
    """How many pictures are asked about at a time, and how long, in seconds, the first waits for others."""

    most: int = 32
    wait: float = 0.005


@dataclass(frozen=True, kw_only=True, eq=False)
class Shelved:
    """A model, and its lanes: pictures, longer questions, and the health check, which waits for neither."""

    name: str
    predictor: Predictor
    shapes: Shapes
    pictures: Batcher[Prediction]
    questions: Questions
    checks: Questions

    def check(self) -> "Future[list[Prediction]]":
        """Runs the model on a grey picture, which raises what is wrong with it."""
        return self.checks.put(partial(self.shapes.answer, [self._grey()]))

    def warm(self) -> None:
        """Asks for each number of pictures once, so that the first client does not wait for what is made then."""
        for count in self.shapes.numbers(self.pictures.most):
            self.checks.put(partial(self.shapes.answer, [self._grey()] * count)).result()

    def _grey(self) -> Pixels:
        card = self.predictor.card
        return np.full((card.model.channels, *card.preprocess.size), 128, dtype=np.uint8)


class Shelf(Mapping[str, Shelved]):
    """Models by name, in the order they were given."""

    def __init__(self, predictors: Mapping[str, Predictor], turns: Turns, batching: Batching, heard: Heard):
        self.models = {name: _shelved(name, each, turns, batching, heard) for name, each in predictors.items()}

    def __getitem__(self, name: str) -> Shelved:
        return self.models[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.models)

    def __len__(self) -> int:
        return len(self.models)

    def find(self, name: str | None) -> Shelved:
        """The model that is meant; where there is one alone, it need not be named."""
        if name is None:
            if len(self) > 1:
                raise UsageError(f"there are several models: say which with model=NAME; {nearest('', self)}")
            return next(iter(self.values()))
        if name not in self:
            raise Refused(404, f"there is no model {name[:80]!r}; {nearest(name[:80], self)}")
        return self[name]


def split(word: str) -> tuple[str, str]:
    """What a MODEL word of the command means, `NAME=MODEL` or a model alone: the name, perhaps none, and the model."""
    name, equals, model = word.partition("=")
    if not equals or Path(word).exists():
        return "", word
    _check(name)
    return name, model


def named(found: Iterable[tuple[str, Predictor]]) -> dict[str, Predictor]:
    """By name; a model without one is called as its run or file is."""
    by_name: dict[str, Predictor] = {}
    for given, predictor in found:
        name = given or predictor.subject.name
        _check(name)
        if name in by_name:
            raise UsageError(f"two models are called {name!r}: give them names, as first=runs/a second=runs/b")
        by_name[name] = predictor
    return by_name


def _check(name: str) -> None:
    if not re.fullmatch(NAME, name):
        raise UsageError(
            f"{name!r} cannot stand in an address: give the model a name without / ? # % and \\, as flowers=runs/a"
        )


def _shelved(name: str, predictor: Predictor, turns: Turns, batching: Batching, heard: Heard) -> Shelved:
    shapes = Shapes(predictor)
    pictures = Batcher(shapes.answer, turns.changed, most=batching.most, wait=batching.wait, heard=partial(heard, name))
    questions, checks = Questions(turns.changed), Questions(turns.changed)
    turns.add(checks, pictures, questions)
    return Shelved(name=name, predictor=predictor, shapes=shapes, pictures=pictures, questions=questions, checks=checks)
