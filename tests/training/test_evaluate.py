"""The model on the validation pictures: every one once, in order, and interrupted only as a whole."""

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from patchwords.data.preprocess import Preprocess
from patchwords.data.transforms import normalise
from patchwords.models.names import Config
from patchwords.training.distributed import World
from patchwords.training.evaluate import answers
from patchwords.training.signals import Wish
from patchwords.training.update import Loaded

CPU = torch.device("cpu")
COUNT = 11
PREPROCESS = Preprocess(size=(32, 24))


@pytest.fixture
def model(small_configs: dict[str, Config], randomised: Callable[[nn.Module], nn.Module]) -> Any:
    return randomised(small_configs["regularised"].build())


IMAGES = torch.randint(0, 256, (COUNT, 3, 32, 24), dtype=torch.uint8, generator=torch.Generator().manual_seed(4))
LABELS = torch.arange(COUNT) % 5


def pictures(rows: np.ndarray, size: int = 4) -> Generator[Loaded]:
    for start in range(0, len(rows), size):
        chosen = rows[start : start + size]
        yield Loaded(IMAGES[chosen], LABELS[chosen], chosen, np.zeros_like(chosen))


@dataclass(frozen=True)
class Gathering(World):
    """One of several processes, whose others give these."""

    others: tuple[Any, ...] = ()
    asked: int = 0

    def most(self, number: int) -> int:
        return max(number, self.asked)

    def gathered(self, value: Any) -> list[Any]:
        return [*self.others, value]


ALONE = World(0, 1, CPU)


def test_the_answers_are_the_models_on_every_picture_in_order(model: Any) -> None:
    found = answers(model, pictures(np.arange(COUNT)), PREPROCESS, "float32", ALONE, Wish())
    assert found is not None
    logits, labels, numbers = found
    assert not model.training  # neither dropout nor stochastic depth
    with torch.no_grad():
        wanted = model(normalise(IMAGES, PREPROCESS))
    torch.testing.assert_close(torch.from_numpy(logits), wanted, rtol=1e-5, atol=1e-5)
    assert logits.dtype == np.float32
    assert labels.tolist() == LABELS.tolist()
    assert numbers.tolist() == list(range(COUNT))


@pytest.mark.parametrize("size", [1, 3, 11, 50])
def test_how_many_at_a_time_does_not_matter(model: Any, size: int) -> None:
    first = answers(model, pictures(np.arange(COUNT)), PREPROCESS, "float32", ALONE, Wish())
    other = answers(model, pictures(np.arange(COUNT), size), PREPROCESS, "float32", ALONE, Wish())
    assert first
    assert other
    np.testing.assert_allclose(first[0], other[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("world", [2, 3, 12])
def test_several_processes_give_what_one_gives(model: Any, world: int) -> None:
    alone = answers(model, pictures(np.arange(COUNT)), PREPROCESS, "float32", ALONE, Wish())
    parts = [
        answers(model, pictures(np.arange(rank, COUNT, world)), PREPROCESS, "float32", ALONE, Wish())
        for rank in range(world - 1)
    ]
    last = Gathering(world - 1, world, CPU, others=tuple(parts))
    found = answers(model, pictures(np.arange(world - 1, COUNT, world)), PREPROCESS, "float32", last, Wish())
    assert alone
    assert found
    np.testing.assert_allclose(found[0], alone[0], rtol=1e-5, atol=1e-5)
    assert found[1].tolist() == alone[1].tolist()
    assert found[2].tolist() == list(range(COUNT))


def test_no_picture_gives_answers_of_the_right_shape(model: Any) -> None:
    found = answers(model, pictures(np.arange(0)), PREPROCESS, "float32", ALONE, Wish())
    assert found is not None
    assert found[0].shape == (0, 5)
    assert len(found[1]) == len(found[2]) == 0


def test_asked_to_stop_there_is_no_answer(model: Any) -> None:
    wish, seen = Wish(), []

    def interrupted() -> Generator[Loaded]:
        for loaded in pictures(np.arange(COUNT)):
            seen.append(len(loaded.labels))
            if len(seen) == 2:
                wish.hear(15, None)
            yield loaded

    assert answers(model, interrupted(), PREPROCESS, "float32", ALONE, wish) is None
    assert len(seen) == 2


def test_another_process_that_was_asked_to_stop_is_heard(model: Any) -> None:
    world = Gathering(0, 2, CPU, asked=2)
    assert answers(model, pictures(np.arange(COUNT)), PREPROCESS, "float32", world, Wish()) is None


def test_in_bf16_the_answers_are_near_and_in_float32(model: Any) -> None:
    exact = answers(model, pictures(np.arange(COUNT)), PREPROCESS, "float32", ALONE, Wish())
    near = answers(model, pictures(np.arange(COUNT)), PREPROCESS, "bf16", ALONE, Wish())
    assert exact
    assert near
    assert near[0].dtype == np.float32
    assert not np.array_equal(near[0], exact[0])
    np.testing.assert_allclose(near[0], exact[0], atol=0.15)
    narrow = answers(model, pictures(np.arange(COUNT)), PREPROCESS, "fp8", ALONE, Wish())
    assert narrow
    assert np.array_equal(narrow[0], near[0])  # eight bits are for learning


def test_the_model_can_be_trained_afterwards(model: Any) -> None:
    answers(model, pictures(np.arange(COUNT)), PREPROCESS, "float32", ALONE, Wish())
    model.train()
    model(normalise(IMAGES, PREPROCESS)).sum().backward()
    assert all(each.grad is not None for each in model.parameters())
