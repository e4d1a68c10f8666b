"""What `evaluate` says to people: each score by its name, and nothing that means nothing."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from patchwords.cli.judged import tell, tell_table_5
from patchwords.cli.output import Output
from patchwords.evaluation.answers import Answers
from patchwords.evaluation.calibrate import HIGHEST, LOWEST
from patchwords.evaluation.fewshot import FewShot
from patchwords.evaluation.frozen import Frozen
from patchwords.evaluation.judgement import Judgement, judge
from patchwords.evaluation.knn import Knn, Near
from patchwords.evaluation.matching import Matching
from patchwords.evaluation.real import Real
from patchwords.evaluation.result import Cost, Evaluation
from patchwords.models.vit import ViTConfig
from patchwords.studies.protocols.transfer import Transfer
from patchwords.weights.card import Card


def judged(classes: int, count: int = 12) -> Judgement:
    labels = np.arange(count) % classes
    logits = np.random.default_rng(0).normal(size=(count, classes)).astype(np.float32)
    answers = Answers(outputs=logits, labels=labels, indices=np.arange(count), sizes=np.full((count, 2), 9))
    matching = Matching(outputs=np.arange(classes), names=tuple(map(str, range(classes))))
    return judge(answers, matching, "softmax")


def evaluation(**found: Any) -> Evaluation:
    config = ViTConfig(depth=1, width=8, mlp=8, heads=1, patch=(4, 4), image=(8, 8), classes=3)
    usual: dict[str, Any] = {
        "folder": Path("there"),
        "model": "mine",
        "card": Card(model=config),
        "data": "photos",
        "split": "test",
        "said": "",
        "judgement": None,
        "frozen": None,
        "cost": Cost(seconds=2.0, asked=1.0, images=10, device="cpu", precision="float32", batch=64),
        "broken": {},
        "notes": (),
    }
    return Evaluation(**(usual | found))


def said(capsys: pytest.CaptureFixture[str], **found: Any) -> str:
    tell(Output(as_json=False, quiet=False), evaluation(**found))
    return " ".join(capsys.readouterr().out.split())


def test_five_of_five_classes_are_no_score(capsys: pytest.CaptureFixture[str]) -> None:
    assert "top 5" not in said(capsys, judgement=judged(5))
    assert "top 5" in said(capsys, judgement=judged(6))


def test_several_labels_and_broken_pictures_are_told_where_there_are_any(capsys: pytest.CaptureFixture[str]) -> None:
    plain = said(capsys, judgement=judged(3))
    assert "ReaL" not in plain
    assert "could not be read" not in plain
    real = Real(accuracy=0.5, count=8, left_out=4)
    text = said(capsys, judgement=replace(judged(3), real=real), broken={"1.png": "no picture", "2.png": "empty"})
    assert "ReaL accuracy 50.00 % 8 pictures" in text
    assert "2 pictures could not be read, and are left out" in text


def test_what_a_temperature_is_worth_is_told_where_other_pictures_tell_of_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert "scaled" not in said(capsys, judgement=judged(3, count=1))
    found = judged(3)
    for temperature, times in ((0.5, 2), (LOWEST, 0), (HIGHEST, 0)):
        calibration = replace(found.calibration, temperature=temperature)
        text = said(capsys, judgement=replace(found, calibration=calibration))
        assert text.count("scaled") == times
    assert "temperature 0.5, fitted on others" in said(
        capsys, judgement=replace(found, calibration=replace(found.calibration, temperature=0.5))
    )


def test_features_have_the_numbers_of_the_first_penalty(capsys: pytest.CaptureFixture[str]) -> None:
    accuracy = np.array([[[0.5, 0.1], [0.6, 0.9]]])
    few = FewShot(shots=(5,), seeds=(0, 1), penalties=(1024.0, 1.0), accuracy=accuracy)
    knn = Knn(temperature=0.07, results=(Near(neighbours=20, top1=0.25, top5=0.75),))
    frozen = Frozen(part="val", learned=40, judged=10, width=16, few_shot=few, knn=knn, probe=None)
    text = said(capsys, frozen=frozen)
    assert "features, 10 pictures (val)" in text
    assert "few-shot, 5 of each class 55.00 % deviation 7.07 % over 2 draws" in text
    assert "nearest neighbours, 20 25.00 % top 5 75.00 %" in text


def test_rates_are_told_in_order_with_the_one_that_was_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    done = Transfer(
        folder=Path("there"),
        data="tiny",
        model="mine",
        pictures={"learned": 32, "chosen_by": 6, "judged": 8},
        rates={0.03: 0.75, 0.01: 0.5},
        diverged=(),
        rate=0.03,
        accuracies={0: 0.7},
    )
    tell_table_5(Output(as_json=False, quiet=False), done)
    text = " ".join(capsys.readouterr().out.split())
    assert "rate development 0.01 50.00 % 0.03 75.00 % chosen" in text
    assert "tiny: 70.00 % with rate 0.03, by 8 pictures" in text
