"""An exported file that is asked: as its model is, and about nothing but its answer."""

from pathlib import Path

import numpy as np
import pytest
import torch

from patchwords.data.broken import Broken
from patchwords.data.sources.door import open_data
from patchwords.data.transforms import normalise
from patchwords.errors import ModelError, ResourceError, UsageError
from patchwords.evaluation.answers import Compute, answers
from patchwords.export.pictures import made
from patchwords.export.read import open_program
from patchwords.serve.predictor import Predictor


class Watched:
    """A session that keeps what came to it."""

    def __init__(self, session):
        self.session, self.given = session, []

    def run(self, outputs, inputs):
        self.given.append(next(iter(inputs.values())))
        return self.session.run(outputs, inputs)


@pytest.mark.parametrize("config", ["plain", "distilled", "swin odd", "resnet pre"])
def test_the_predictor_answers_as_with_the_model(exported, small, pictures: Path, config: str) -> None:
    says, model = Predictor(exported(config).path), Predictor(small(config), device="cpu")
    paths = sorted(map(str, pictures.iterdir()))
    assert says.classes == model.classes
    for ours, theirs in zip(model.predict_many(paths), says.predict_many(paths), strict=True):
        np.testing.assert_allclose(theirs.logits, ours.logits, atol=1e-4)
        assert (theirs.label, theirs.name, theirs.loss) == (ours.label, ours.name, ours.loss)


@pytest.mark.parametrize("takes", ["images", "pixels"])
def test_the_same_64_files_come_to_it_as_the_model_sees_them(exported, small, takes: str) -> None:
    """Promise 16, the part of exported files."""
    says, model = Predictor(exported(input=takes).path, batch=64), Predictor(small(), device="cpu")
    watched = says.model.session = Watched(says.model.session)
    files = made(64)
    list(says.predict_many(files))
    (given,) = watched.given
    seen = torch.from_numpy(np.stack([model.see(file) for file in files]))
    if takes == "pixels":
        assert np.array_equal(given, seen.permute(0, 2, 3, 1).numpy())
    else:
        assert np.array_equal(given, normalise(seen, model.card.preprocess).numpy())


def test_evaluation_can_ask_it(exported, small, data: Path) -> None:
    source, card = open_data(data, split=None).train, small().card
    found = [
        answers(model, source, card.preprocess, 3, Compute(), Broken(0, 20, print), lambda *_: None).outputs
        for model in (small().model, open_program(exported().path).model)
    ]
    np.testing.assert_allclose(*found, atol=1e-5)


def test_it_shows_nothing_but_its_answer(exported, pictures: Path) -> None:
    subject = open_program(exported().path)
    images = torch.randn(2, 3, 32, 24)
    assert subject.model.shows == "nothing"
    assert all(torch.equal(logits, subject.model(images)) for logits in subject.model.pair(images))
    for ask in (
        lambda model: model.represent(images),
        lambda model: model.features(images, [1]),
        lambda model: model.attention(images, [1]),
        lambda model: model.gaze(images),
        lambda model: model.evidence(images, images),
        lambda model: model.filters(),
        lambda model: model.positions(),
    ):
        with pytest.raises(UsageError, match="its answer and nothing else"):
            ask(subject.model)


def test_two_files_with_one_card_are_told_apart(exported) -> None:
    plain, pixels = (open_program(exported(**wish).path) for wish in ({}, {"input": "pixels"}))
    assert plain.digest == open_program(exported().path).digest
    assert plain.digest != pixels.digest


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"precision": "bf16"}, "--precision and --compile"),
        ({"compiled": True}, "--precision and --compile"),
        ({"device": "cuda"}, "on the processor"),
        ({"image": 64}, "size is fixed: leave out --image"),
        ({"heads": 4}, "leave out --image and --heads"),
    ],
)
def test_what_is_for_models_is_refused(exported, options, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        Predictor(exported().path, **options)


def test_pictures_of_another_size_are_an_error_in_a_sentence(exported) -> None:
    with pytest.raises(ModelError, match="onnxruntime could not run it"):
        open_program(exported().path).model(torch.randn(2, 3, 8, 8))


def test_too_many_pictures_for_the_memory_are_an_error_of_resources(exported) -> None:
    class Full:
        def run(self, outputs, inputs):
            raise RuntimeError("[ONNXRuntimeError] : 6 : RUNTIME_EXCEPTION : bad_alloc: Failed to allocate memory")

    model = open_program(exported().path).model
    model.session = Full()
    with pytest.raises(ResourceError, match="smaller --batch"):
        model(torch.randn(2, 3, 32, 24))
