"""A few pictures of each class, as `evaluate` asks of them, without a look at the others."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import patchwords
from patchwords.data.broken import Broken
from patchwords.data.loader import Loading
from patchwords.data.sources.source import Data, Source, Subset
from patchwords.errors import DataError
from patchwords.evaluation import fewshot
from patchwords.evaluation.answers import Compute, answers
from patchwords.evaluation.features import Features
from patchwords.evaluation.fewshot import samples
from patchwords.models.vit import ViTConfig
from patchwords.studies.shots import DRAWS, few_shot
from patchwords.training.watch import Log
from patchwords.weights.subject import open_subject

COMPUTE = Compute(loading=Loading(workers=0), batch=16)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory, randomised: Callable[..., Any]) -> Path:
    path = tmp_path_factory.mktemp("model") / "tiny.safetensors"
    torch.manual_seed(0)
    config = ViTConfig(depth=1, width=16, mlp=16, heads=2, patch=(4, 4), image=(8, 8), classes=4)
    patchwords.save(randomised(config.build()), path)
    return path


@pytest.fixture(scope="module")
def data(shades: Callable[..., Data]) -> Data:
    return shades(5, train=100, val=30)


def asked(model: Path, data: Data, shots: int, broken: float = 0.0) -> float:
    return few_shot(model, data, shots, COMPUTE, broken, Log())


def features(model: Path, source: Source) -> Features:
    subject = open_subject(model)
    ask = partial(answers, subject.model.represent, source, subject.card.preprocess, 3, COMPUTE)
    found = ask(Broken(0.0, len(source), lambda _: None), lambda *_: None)
    return Features(vectors=found.outputs, labels=found.labels, indices=found.indices)


@pytest.mark.parametrize("shots", [1, 2, 5])
def test_it_is_the_few_shot_accuracy_of_all_features(shots: int, model: Path, data: Data) -> None:
    train, test = features(model, data.train), features(model, data.val)
    wanted = fewshot.few_shot(train, test, 5, shots=(shots,), seeds=DRAWS)
    assert asked(model, data, shots) == pytest.approx(float(wanted.mean[0, 0]), abs=1e-12)
    assert 0.2 < asked(model, data, 5) <= 1.0


class Seen(Source):
    """Another source, with a list of the pictures that were asked for."""

    def __init__(self, source: Source):
        self.source, self.labels, self.seen = source, source.labels, []

    def picture(self, index: int) -> Any:
        self.seen.append(index)
        return self.source.picture(index)

    def name(self, index: int) -> str:
        return self.source.name(index)

    def size(self, index: int) -> int:
        return self.source.size(index)


def test_only_pictures_that_are_drawn_are_decoded_and_each_once(model: Path, data: Data) -> None:
    train, val = Seen(data.train), Seen(data.val)
    asked(model, Data("shades", data.classes, train, val), 2)
    drawn = np.unique(np.concatenate([samples(data.train.labels, seed, 2) for seed in DRAWS]))
    assert sorted(train.seen) == drawn.tolist()
    assert len(drawn) < 31
    assert sorted(val.seen) == list(range(30))


def test_a_class_with_fewer_pictures_gives_all_of_them(model: Path, data: Data) -> None:
    few = np.concatenate([np.flatnonzero(data.train.labels == 0)[:1], np.flatnonzero(data.train.labels > 0)])
    scarce = Data("shades", data.classes, Subset(data.train, few), data.val)
    assert 0 <= asked(model, scarce, 5) <= 1


class Torn(Seen):
    """A picture of it cannot be read."""

    def __init__(self, source: Source, broken: int):
        super().__init__(source)
        self.broken = broken

    def picture(self, index: int) -> Any:
        return b"no picture" if index == self.broken else super().picture(index)


def test_a_picture_that_cannot_be_read_is_left_out_where_that_is_allowed(model: Path, data: Data) -> None:
    drawn = int(samples(data.train.labels, 0, 2)[0])
    broken = Data("shades", data.classes, Torn(data.train, drawn), data.val)
    assert 0 <= asked(model, broken, 2, broken=0.5) <= 1
    with pytest.raises(DataError):
        asked(model, broken, 2, broken=0.0)
