"""Models by name: a run's own unless given, and few numbers of pictures where each new one costs."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

import numpy as np
import pytest

from patchwords.errors import UsageError
from patchwords.serve.http.service import Service
from patchwords.serve.http.shelf import named, split
from patchwords.serve.prediction import Prediction
from patchwords.serve.predictor import Predictor
from patchwords.serve.queue.shapes import Shapes
from patchwords.weights.subject import Subject


def test_a_model_may_be_given_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a=b.safetensors").touch()
    assert split("flowers=runs/a") == ("flowers", "runs/a")
    assert split("runs/a") == ("", "runs/a")
    assert split("a=b.safetensors") == ("", "a=b.safetensors")  # it is there


@pytest.mark.parametrize(
    "word", ["=runs/a", "a/b=runs/a", "a?b=runs/a", " a=runs/a", "a\n=runs/a", "%2e=x", f"{'a' * 101}=x"]
)
def test_a_name_must_stand_in_an_address(word: str) -> None:
    with pytest.raises(UsageError, match="cannot stand in an address"):
        split(word)


def test_without_a_name_it_is_called_as_its_run_and_no_two_are_called_the_same(
    subject: Callable[..., Subject],
) -> None:
    one, other = (Predictor(subject(), device="cpu") for _ in range(2))
    assert list(named([("", one), ("second", other)])) == ["plain", "second"]
    with pytest.raises(UsageError, match="two models are called 'plain'"):
        named([("", one), ("", other)])


def test_any_number_of_pictures_is_asked_about_on_a_cpu_and_powers_of_two_where_shapes_cost(
    predictor: Predictor,
) -> None:
    images = [np.random.default_rng(seed).integers(0, 256, (3, 32, 24), dtype=np.uint8) for seed in range(3)]
    shapes, asked = Shapes(predictor), list[int]()
    before = predictor.function

    def watched(inputs):  # type: ignore[no-untyped-def]
        asked.append(len(inputs))
        return before(inputs)

    predictor.function = watched
    plain = shapes.answer(images)
    shapes.few = True
    filled = shapes.answer(images)
    assert asked == [3, 4]
    assert [each.label for each in plain] == [each.label for each in filled]
    assert len(filled) == 3
    assert shapes.numbers(20) == [1, 2, 4, 8, 16, 32]
    shapes.few = False
    assert shapes.numbers(20) == [1, 20]
    assert shapes.numbers(1) == [1]


def test_a_picture_waits_for_one_longer_question_and_not_for_all(service: Service, kinds: dict[str, bytes]) -> None:
    model, gate, done = service.shelf["plain"], threading.Event(), list[str]()
    first = model.questions.put(lambda: gate.wait(5))
    for _ in range(5):
        model.questions.put(lambda: done.append("question"))
    answer: Future[Prediction] = Future()
    answer.add_done_callback(lambda _: done.append("picture"))
    model.pictures.expect()
    model.pictures.put(model.predictor.see(kinds["rgb.jpg"]), answer)
    gate.set()
    answer.result(5)
    assert first.result(5)
    assert done.index("picture") <= 1
