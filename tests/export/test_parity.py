"""The comparison: of picture files, through the card's preprocessing, and strict."""

import pytest
import torch

from patchwords.errors import ModelError
from patchwords.export import parity
from patchwords.export.pictures import made
from patchwords.export.wish import Wish
from patchwords.serve.predictor import Predictor


def compared(small, program):
    subject = small()
    return parity.compare(subject.model, program, subject.card, Wish(), lambda done, total: None)


def test_the_same_model_differs_by_nothing(small) -> None:
    found = compared(small, small().model)
    assert (found.difference, found.agreement) == (0, 1)
    parity.check(found, "it")


@pytest.mark.parametrize("wrong", [lambda x: x + 0.01, lambda x: x * torch.nan, lambda x: x.flip(1)])
def test_what_differs_is_refused(small, wrong) -> None:
    model = small().model
    with pytest.raises(ModelError, match="it does not say what the model says"):
        parity.check(compared(small, lambda images: wrong(model(images))), "it")


def test_what_differs_at_one_batch_alone_is_refused(small) -> None:
    model = small().model
    found = compared(small, lambda images: model(images) + (len(images) == 33))
    assert [each.difference > 0.5 for each in found.batches] == [False, False, False, True]
    with pytest.raises(ModelError, match="of 33 pictures"):
        parity.check(found, "it")


def test_another_number_of_answers_is_refused(small) -> None:
    with pytest.raises(ModelError, match=r"gives \[1, 4\] numbers where the model gives \[1, 5\]"):
        compared(small, lambda images: small().model(images)[:, :4])


def test_the_pictures_are_files_of_many_kinds_and_no_two_alike() -> None:
    files = made(33)
    assert len({*files}) == 33
    assert files == made(33)
    assert {file[:3] for file in files} == {b"\xff\xd8\xff", b"\x89PN"}


def test_they_are_seen_as_prediction_sees_them(small) -> None:
    subject, seen, expected = small(), [], []

    def watched(images: torch.Tensor) -> torch.Tensor:
        seen.append(images)
        return subject.model(images)

    def asked(images: torch.Tensor) -> torch.Tensor:
        expected.append(images)
        return subject.model(images)

    compared(small, watched)
    predictor = Predictor(subject, device="cpu")
    predictor.function = asked
    list(predictor.predict_many(made(33)))
    assert torch.equal(seen[-1], torch.cat(expected))
