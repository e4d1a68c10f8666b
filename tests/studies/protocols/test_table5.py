"""Table 5's protocol: who sees which pictures, how a rate is chosen, what is reported, and how it goes on."""

import json
import os
import shutil
import signal
import statistics
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import patchwords
from patchwords import settings
from patchwords.data.sources.door import open_data
from patchwords.data.sources.source import Data, Subset
from patchwords.errors import DataError, ModelError, NonFiniteError, UsageError
from patchwords.evaluation.pictures import find
from patchwords.models.build import configure
from patchwords.models.vit import ViTConfig
from patchwords.studies.protocols import table5
from patchwords.studies.protocols.table5 import TABLE_4, table_5
from patchwords.studies.protocols.transfer import Transfer
from patchwords.training import recipe as recipes
from patchwords.training.signals import StoppedError
from patchwords.training.start import begin
from patchwords.training.train import train
from patchwords.training.watch import Log
from patchwords.weights.card import Card
from patchwords.weights.subject import open_subject

RATES = (0.1, 0.01)


@pytest.fixture(scope="module")
def data(squares: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(squares(tmp_path_factory.mktemp("data") / "squares.npz", train=60, val=20, test=30))


@pytest.fixture(scope="module")
def study(weights: str, data: str, tiny: dict[str, Any]) -> Callable[..., Transfer]:
    """`study(out=…)` is the protocol in its smallest size."""

    def run(**options: Any) -> Transfer:
        given = {"rates": RATES, "seeds": (0, 1), "device": "cpu", "change": tiny, "watcher": Log()} | options
        return table_5(given.pop("weights", weights), given.pop("data", data), **given)

    return run


@pytest.fixture(scope="module")
def undisturbed(study: Callable[..., Transfer], tmp_path_factory: pytest.TempPathFactory) -> Transfer:
    """One that really trained, and that nobody stopped; nobody writes there."""
    return study(out=tmp_path_factory.mktemp("undisturbed") / "study")


@pytest.fixture
def copied(undisturbed: Transfer, tmp_path: Path) -> Path:
    return shutil.copytree(undisturbed.folder, tmp_path / "study")


def by(places: dict[str, tuple[float, float]]) -> Callable[..., tuple[float, float]]:
    """Accuracy and loss by rate."""
    return lambda recipe, data: places[f"{recipe.optimizer.lr:g}"]


# Table 4


@pytest.mark.parametrize(
    ("name", "steps", "rates", "share"),
    [
        ("imagenet", "20k steps", (0.003, 0.01, 0.03, 0.06), 0.01),
        ("ILSVRC2012", "20k steps", (0.003, 0.01, 0.03, 0.06), 0.01),
        ("cifar10", "10k steps", (0.001, 0.003, 0.01, 0.03), 0.02),
        ("cifar-10-batches-py", "10k steps", (0.001, 0.003, 0.01, 0.03), 0.02),
        ("cifar100", "10k steps", (0.001, 0.003, 0.01, 0.03), 0.02),
        ("pets", "500 steps", (0.001, 0.003, 0.01, 0.03), 0.1),
        ("oxford-iiit-pet", "500 steps", (0.001, 0.003, 0.01, 0.03), 0.1),
        ("flowers102", "500 steps", (0.001, 0.003, 0.01, 0.03), 0.1),
    ],
)
def test_the_rows_of_table_4(name: str, steps: str, rates: tuple[float, ...], share: float) -> None:
    row = table5._row(name, None)
    assert row
    found = recipes.read(row.recipe)
    assert (found.duration, row.rates, found.data.validation.share) == (steps, rates, share)
    assert (found.optimizer.kind, found.optimizer.momentum, found.batch, found.clip) == ("sgd", 0.9, 512, 1.0)


@pytest.mark.parametrize("name", ["flower_photos", "imagenet21k", "imagenette", "carpets", "cifar10.1"])
def test_other_data_is_not_in_table_4(name: str) -> None:
    assert table5._row(name, None) is None


def test_a_recipe_that_is_named_brings_the_rates_of_its_row_and_another_those_of_the_data() -> None:
    assert table5._row("mine", "paper/finetune-imagenet") == TABLE_4[0]
    assert table5._row("imagenet", "paper/finetune-imagenet-h14-518") == TABLE_4[0]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"rates": None},
            "the recipe (paper/finetune-pets) and the rates (0.001, 0.003, 0.01, 0.03) of its small sets",
        ),
        ({}, "Table 4: the recipe (paper/finetune-pets) of its small sets"),
        ({"rates": None, "recipe": "finetune"}, "Table 4: the rates (0.001, 0.003, 0.01, 0.03) of its small sets"),
        ({"recipe": "finetune"}, ""),
    ],
)
def test_what_is_taken_from_small_sets_for_other_data_is_said(
    options: dict[str, Any], said: str, study, made_up, notes, tmp_path: Path
) -> None:
    made_up(lambda recipe, data: (0.5, 1.0))
    study(out=tmp_path / "study", watcher=notes, **options)
    assert said in notes.said
    assert ("squares is no data of Table 4" in notes.said) == bool(said)
    notes.notes.clear()
    study(resume=tmp_path / "study", watcher=notes, rates=None)
    assert "Table 4" not in notes.said  # it goes on with what it had


@pytest.mark.parametrize(
    ("model", "highest"), [("ViT-B/16", 0.03), ("R50+ViT-B/16", 0.06), ("BiT-R50x1", 0.06), ("R50x1", 0.06)]
)
def test_the_highest_rate_on_imagenet_is_only_for_resnets_and_hybrids(model: str, highest: float) -> None:
    assert max(table5._rates(TABLE_4[0], configure(model))) == highest


# Who sees what


def test_no_training_sees_what_judges_it_and_the_last_ones_learn_from_all(study, made_up, data: str, tmp_path) -> None:
    trainings = made_up(by({"0.1": (0.5, 1.0), "0.01": (0.6, 1.0)}))
    study(out=tmp_path / "study")
    assert trainings.places == ["dev-lr-0.1", "dev-lr-0.01", "seed-0", "seed-1"]
    whole = open_data(data, split=None)
    test = {whole.test.name(index) for index in range(30)}
    every = {source.name(index) for source in (whole.train, whole.val) for index in range(len(source))}
    learned, choosing = trainings.names("dev-lr-0.1", "train"), trainings.names("dev-lr-0.1", "val")
    assert learned | choosing == every
    assert learned & choosing == set()
    assert len(choosing) == 8  # a tenth of each class
    assert "test" not in trainings.data["dev-lr-0.1"].splits
    assert trainings.names("dev-lr-0.01", "val") == choosing
    for seed in ("seed-0", "seed-1"):
        assert trainings.names(seed, "train") == every
        assert trainings.names(seed, "val") == test


def test_every_model_is_judged_once_after_its_last_step(undisturbed: Transfer) -> None:
    for place in ("dev-lr-0.1", "seed-0"):
        rows = [json.loads(line) for line in (undisturbed.folder / place / "metrics.jsonl").read_text().splitlines()]
        assert [row["step"] for row in rows if row["kind"] == "val"] == [2]
        assert recipes.read(undisturbed.folder / place / "recipe.toml").evaluate == "100%"


def test_the_trainings_differ_in_rate_and_seed_alone(study, made_up, tmp_path: Path) -> None:
    trainings = made_up(by({"0.1": (0.5, 1.0), "0.01": (0.6, 1.0)}))
    study(out=tmp_path / "study")
    told = {place: settings.dotted(settings.write(found)) for place, found in trainings.recipes.items()}
    differ = {key for key in told["seed-0"] for place in told if told[place][key] != told["seed-0"][key]}
    assert differ <= {"optimizer.lr", "seed"}
    assert {place: found.seed for place, found in trainings.recipes.items()} == {
        "dev-lr-0.1": 0,
        "dev-lr-0.01": 0,
        "seed-0": 0,
        "seed-1": 1,
    }


def test_the_head_is_one_of_zeros_even_for_classes_that_the_weights_know(study, made_up, tmp_path: Path) -> None:
    config = ViTConfig(depth=1, width=16, mlp=16, heads=2, patch=(4, 4), image=(8, 8), classes=2)
    model = config.build()
    torch.nn.init.normal_(model.head.classifier.weight)
    known = tmp_path / "known.safetensors"
    patchwords.save(model, known, Card(model=config, classes=("0", "1")))
    trainings = made_up(by({"0.1": (0.5, 1.0), "0.01": (0.6, 1.0)}))
    study(weights=str(known), out=tmp_path / "study")
    begun, _ = begin(trainings.recipes["seed-0"], trainings.data["seed-0"])
    assert not begun.head.classifier.weight.any()
    assert torch.equal(begun.embed.patch.weight, model.embed.patch.weight)


@pytest.mark.parametrize(
    ("parts", "learned", "choosing", "judging"),
    [
        ({"train": 60, "test": 30}, 60, 6, 30),
        ({"train": 60, "val": 20}, 60, 6, 20),
        ({"train": 60}, 48, 4, 12),
        ({"train": 60, "val": 20, "test": 30}, 80, 8, 30),
    ],
)
def test_what_judges_is_the_test_part_or_the_validation_part_or_a_fifth(
    parts: dict[str, int], learned: int, choosing: int, judging: int, squares, study, made_up, tmp_path: Path
) -> None:
    made_up(by({"0.1": (0.5, 1.0), "0.01": (0.6, 1.0)}))
    result = study(data=str(squares(tmp_path / "parts.npz", **parts)), out=tmp_path / "study")
    assert result.pictures == {"learned": learned, "chosen_by": choosing, "judged": judging}


def test_a_fifth_that_judges_is_never_seen_before(squares, study, made_up, tmp_path: Path) -> None:
    trainings = made_up(by({"0.1": (0.5, 1.0), "0.01": (0.6, 1.0)}))
    study(data=str(squares(tmp_path / "parts.npz", train=60)), out=tmp_path / "study")
    judging = trainings.names("seed-0", "val")
    assert judging & trainings.names("seed-0", "train") == set()
    assert judging & (trainings.names("dev-lr-0.1", "train") | trainings.names("dev-lr-0.1", "val")) == set()


def test_opened_data_is_taken_too(study, made_up, data: str, tmp_path: Path) -> None:
    made_up(by({"0.1": (0.5, 1.0), "0.01": (0.6, 1.0)}))
    assert study(data=open_data(data), out=tmp_path / "study").pictures["learned"] == 80


def test_a_class_that_only_the_test_has_is_refused(squares, study, tmp_path: Path) -> None:
    found = open_data(squares(tmp_path / "parts.npz", train=60, test=30))
    found.test.labels[0] = 2
    strange = Data(name="odd", classes=("a", "b", "c"), train=found.train, val=found.val, test=found.test)
    with pytest.raises(DataError, match=r"odd is judged by classes that cannot be learned \(c\)"):
        study(data=strange, out=tmp_path / "study")
    assert not (tmp_path / "study").exists()


def test_a_test_part_alone_and_a_class_alone_cannot_be_learned_from(squares, study, tmp_path: Path) -> None:
    found = open_data(squares(tmp_path / "parts.npz", train=60, test=30))
    alone = replace(found, train=found.test, val=found.test, test=found.test)
    with pytest.raises(DataError, match="parts has a test part only: name what to learn from"):
        study(data=alone, out=tmp_path / "study")
    dark = Subset(found.train, np.flatnonzero(found.train.labels == 0))
    with pytest.raises(DataError, match="parts has one class only to learn from"):
        study(data=replace(found, train=dark, val=dark), out=tmp_path / "study")
    assert not (tmp_path / "study").exists()


def test_the_pictures_are_looked_at_first_and_what_is_known_of_them_is_said(
    study, made_up, notes, tmp_path: Path
) -> None:
    made_up(lambda recipe, data: (0.5, 1.0))
    for number in range(40):
        place = tmp_path / f"photos/{'dark' if number % 2 else 'light'}/{number}.png"
        place.parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (8, 8), 6 * number).save(place)
    (tmp_path / "photos/empty").mkdir()
    study(data=str(tmp_path / "photos"), out=tmp_path / "first", watcher=notes)
    assert "no classes, since they hold no pictures: empty" in notes.said
    assert "photos has no parts of its own: a fifth of each class is put aside, and judges" in notes.said
    place.write_bytes(b"no picture")
    with pytest.raises(DataError, match="1 of 40 pictures cannot be read"):
        study(data=str(tmp_path / "photos"), out=tmp_path / "second")
    assert not (tmp_path / "second").exists()


# What it comes to


@pytest.mark.parametrize(
    ("scores", "best"),
    [
        ({"0.1": (0.7, 1.0), "0.01": (0.6, 0.5)}, 0.1),
        ({"0.1": (0.6, 0.5), "0.01": (0.7, 1.0)}, 0.01),
        ({"0.1": (0.7, 0.9), "0.01": (0.7, 1.0)}, 0.1),  # among equals the lower loss
        ({"0.1": (0.7, 0.9), "0.01": (0.7, 0.9)}, 0.01),  # then the lower rate
    ],
)
def test_the_rate_is_the_best_on_the_development_pictures(
    scores: dict[str, tuple[float, float]], best: float, study, made_up, tmp_path: Path
) -> None:
    trainings = made_up(by(scores))
    result = study(out=tmp_path / "study")
    assert result.rate == best
    assert result.rates == {float(rate): accuracy for rate, (accuracy, _) in scores.items()}
    assert trainings.recipes["seed-0"].optimizer.lr == trainings.recipes["seed-1"].optimizer.lr == best


def test_the_mean_and_the_deviation_of_the_sample(study, made_up, tmp_path: Path) -> None:
    finals = {0: 0.9, 1: 0.92, 2: 0.97}
    made_up(lambda recipe, data: (finals[recipe.seed] if len(data.val) == 30 else recipe.optimizer.lr, 1.0))
    result = study(out=tmp_path / "study", seeds=None)
    assert result.accuracies == finals
    assert result.mean == pytest.approx(0.93)
    assert result.deviation == pytest.approx((((0.03**2) + (0.01**2) + (0.04**2)) / 2) ** 0.5)
    written = json.loads((tmp_path / "study/table-5.json").read_text())
    assert written == {"protocol": "table-5", **result.numbers()}
    assert written["accuracies"] == {"0": 0.9, "1": 0.92, "2": 0.97}
    assert written["rates"] == {"0.1": 0.1, "0.01": 0.01}


def test_one_rate_needs_no_choice_and_one_seed_has_no_deviation(study, made_up, notes, tmp_path: Path) -> None:
    trainings = made_up(by({"0.01": (0.6, 1.0)}))
    result = study(out=tmp_path / "study", rates=[0.01], seeds=[4], watcher=notes)
    assert trainings.places == ["seed-4"]
    assert (result.rates, result.rate, result.deviation) == ({}, 0.01, None)
    assert "no rate is to be chosen" in notes.said


def test_a_rate_that_diverges_is_not_chosen_and_does_not_end_it(study, made_up, notes, tmp_path: Path) -> None:
    made_up(by({"0.1": (0.0, float("inf")), "0.01": (0.6, 1.0)}))
    result = study(out=tmp_path / "study", watcher=notes)
    assert (result.rate, result.diverged, result.rates) == (0.01, (0.1,), {0.01: 0.6})
    assert "squares: rate 0.1 is too high: step 7 gave a loss of inf" in notes.notes
    assert "optimizer.lr" not in notes.said  # which a protocol is not told


def test_a_training_that_diverged_leaves_no_checkpoints_and_is_not_repeated(
    study, trainings, tiny: dict[str, Any], tmp_path: Path
) -> None:
    given = {"rates": (1e38, 0.01), "seeds": [0], "change": tiny | {"duration": "4 steps"}}
    first = study(out=tmp_path / "study", **given)
    assert first.diverged == (1e38,)
    assert not (tmp_path / "study/dev-lr-1e+38/checkpoints").exists()
    trainings.places.clear()
    assert study(resume=tmp_path / "study", **given) == first
    assert trainings.places == []


def test_where_all_rates_diverge_there_is_no_result(study, made_up, tmp_path: Path) -> None:
    made_up(by({"0.1": (0.0, float("inf")), "0.01": (0.0, float("inf"))}))
    with pytest.raises(
        NonFiniteError, match=r"all rates are too high \(0.1, 0.01\): start a new study with lower rates"
    ):
        study(out=tmp_path / "study")


def test_a_rate_that_diverges_at_the_end_is_no_result_either(study, made_up, tmp_path: Path) -> None:
    made_up(lambda recipe, data: (0.5, float("inf") if len(data.val) == 30 and recipe.seed == 1 else 1.0))
    with pytest.raises(
        NonFiniteError, match=r"rate 0.01 is too high for seed 1: step 7 gave a loss of inf; start a new"
    ):
        study(out=tmp_path / "study")


def test_each_training_knows_what_it_did_not_see(undisturbed: Transfer, data: str) -> None:
    for place, part, count in (("seed-0", "test_images", 30), ("dev-lr-0.1", "", 8)):
        subject = open_subject(undisturbed.folder / place)
        for given in ("", data):
            found = find(subject, given, lambda word: open_data(word, split=None))
            chosen, source = found.chosen("auto")
            assert (found.learned, chosen, len(source)) == (True, "val", count)
            assert all(source.name(index).startswith(part) for index in range(count))


def test_the_numbers_are_those_of_the_runs(undisturbed: Transfer) -> None:
    result = undisturbed
    for seed, accuracy in result.accuracies.items():
        place = result.folder / f"seed-{seed}"
        run = json.loads((place / "run.json").read_text())
        assert run["scores"]["accuracy"] == accuracy
        assert run["scores"]["count"] == 30
        assert (place / "model.safetensors").exists()
        assert not (place / "checkpoints").exists()
    assert result.mean == statistics.fmean(result.accuracies.values())


def test_the_folder_is_numbered_where_none_is_named(study, made_up, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    made_up(by({"0.1": (0.5, 1.0), "0.01": (0.6, 1.0)}))
    assert [study().folder.name for _ in range(2)] == ["table-5-squares-1", "table-5-squares-2"]


# Stopped, killed, gone on with


class Stop(Log):
    """Sends itself a signal after so many steps in all."""

    def __init__(self, after: int, number: int) -> None:
        self.left, self.number = after, number

    def step(self, done: int, total: int) -> None:
        self.left -= 1
        if not self.left:
            os.kill(os.getpid(), self.number)


def bits(result: Transfer) -> tuple[dict[str, Any], dict[str, bytes]]:
    """What must be the same in two studies: the numbers, and the models of both phases."""
    models = {path.parent.name: path.read_bytes() for path in result.folder.glob("*/model.safetensors")}
    assert len(models) == 4
    return result.numbers() | {"folder": ""}, models


def killed(study: Callable[..., Transfer], after: int, **options: Any) -> None:
    """A process of its own makes so many steps of a study, and is killed."""
    pid = os.fork()
    if pid == 0:
        try:
            study(watcher=Stop(after, signal.SIGKILL), **options)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL


@pytest.fixture
def one_thread() -> Any:
    """A forked process must not wait for threads that are not there."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("after", "left"),
    [
        (1, ["dev-lr-0.1", "dev-lr-0.01", "seed-0", "seed-1"]),
        (4, ["dev-lr-0.01", "seed-0", "seed-1"]),
        (7, ["seed-1"]),
    ],
)
def test_killed_it_goes_on_to_the_same_numbers_and_repeats_nothing(
    after: int, left: list[str], study, undisturbed, trainings, one_thread, tmp_path: Path
) -> None:
    killed(study, after, out=tmp_path / "study")
    trainings.places.clear()
    result = study(resume=tmp_path / "study")
    assert trainings.places == left
    assert trainings.resumed == left[:1]
    assert bits(result) == bits(undisturbed)


def test_killed_before_a_training_began_it_begins(study, undisturbed, trainings, copied: Path) -> None:
    shutil.rmtree(copied / "seed-1")
    (copied / "seed-1").mkdir()
    (copied / "seed-1/run.json").write_text("{}")
    result = study(resume=copied)
    assert (trainings.places, trainings.resumed) == (["seed-1"], [])
    assert bits(result) == bits(undisturbed)


def test_a_finished_study_is_read(study, undisturbed, trainings, copied: Path) -> None:
    (copied / "table-5.json").unlink()
    assert bits(study(resume=copied, rates=None, seeds=None, change=None)) == bits(undisturbed)
    assert trainings.places == []
    assert (copied / "table-5.json").exists()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_stops_it_and_it_says_how_to_go_on(
    number: int, code: int, study, weights: str, data: str, tmp_path: Path
) -> None:
    with pytest.raises(StoppedError, match="after step 1 of 2, and saved") as caught:
        study(out=tmp_path / "my study", watcher=Stop(3, number))
    assert caught.value.exit_code == code
    command = f"patchwords evaluate {weights} {data} --protocol table-5 --resume '{tmp_path / 'my study'}'"
    assert f"`{command}` goes on" in str(caught.value)


def test_a_signal_at_the_end_of_a_training_stops_before_the_next(
    study, undisturbed, trainings, tmp_path: Path, monkeypatch
) -> None:
    def late(folder: Path, _: Any) -> None:
        (folder / "report.html").touch()
        os.kill(os.getpid(), signal.SIGTERM)

    with monkeypatch.context() as patch:
        patch.setattr("patchwords.training.train.report", late)
        with pytest.raises(StoppedError, match=r"stopped before dev-lr-0\.01, and saved; `patchwords") as caught:
            study(out=tmp_path / "study")
    assert caught.value.exit_code == 143
    assert trainings.places == ["dev-lr-0.1"]
    assert bits(study(resume=tmp_path / "study")) == bits(undisturbed)


def test_one_training_of_a_study_does_not_go_on_by_itself(study, tmp_path: Path) -> None:
    with pytest.raises(StoppedError):
        study(out=tmp_path / "study", watcher=Stop(1, signal.SIGTERM))
    with pytest.raises(UsageError, match=r"one training of several: .* `patchwords evaluate .* --protocol table-5"):
        train(resume=tmp_path / "study/dev-lr-0.1", device="cpu")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"rates": (0.1, 0.02)}, r"rates were \[0.1, 0.01\] and would be \[0.1, 0.02\]"),
        ({"seeds": (0, 1, 2)}, r"seeds were \[0, 1\] and would be \[0, 1, 2\]"),
        ({"change": {"duration": "3 steps"}}, "duration was '2 steps' and would be '3 steps'"),
        ({"recipe": "paper/finetune-cifar10"}, "data.validation.share was 0.1 and would be 0.02"),
    ],
)
def test_changed_terms_are_refused_by_name(changed: dict[str, Any], said: str, study, made_up, tmp_path: Path) -> None:
    made_up(by({"0.1": (0.5, 1.0), "0.01": (0.6, 1.0)}))
    study(out=tmp_path / "study")
    with pytest.raises(UsageError, match=said):
        study(resume=tmp_path / "study", **({"change": {}} | changed))


def test_other_weights_and_other_data_are_refused(study, made_up, squares, tmp_path: Path, weights: str) -> None:
    made_up(by({"0.1": (0.5, 1.0), "0.01": (0.6, 1.0)}))
    given = squares(tmp_path / "squares.npz", train=60, test=30)
    copy = tmp_path / "copy.safetensors"
    copy.write_bytes(Path(weights).read_bytes())
    study(weights=str(copy), data=str(given), out=tmp_path / "study")
    squares(given, train=62, test=30)
    with pytest.raises(UsageError, match="the data is not what it was"):
        study(weights=str(copy), data=str(given), resume=tmp_path / "study")
    squares(given, train=60, test=30)
    model = patchwords.load(copy)
    model.embed.patch.weight.data += 1
    patchwords.save(model, copy)
    with pytest.raises(UsageError, match="the weights are not what they were"):
        study(weights=str(copy), data=str(given), resume=tmp_path / "study")


def test_how_it_is_computed_may_change(study, tmp_path: Path, undisturbed, tiny: dict[str, Any]) -> None:
    with pytest.raises(StoppedError):
        study(out=tmp_path / "study", watcher=Stop(1, signal.SIGTERM))
    result = study(resume=tmp_path / "study", change=tiny | {"keep": 3, "minutes": 5.0})
    assert bits(result) == bits(undisturbed)


# What is refused


@pytest.mark.parametrize("key", ["weights", "optimizer.lr", "seed", "evaluate", "best", "patience"])
def test_what_the_protocol_sets_cannot_be_set(key: str, study, tmp_path: Path) -> None:
    part, _, name = key.rpartition(".")
    for change in ({key: 1}, {part: {name: 1}} if part else {key: 1}):
        with pytest.raises(UsageError, match=f"{key} is not for table-5 to be told"):
            study(out=tmp_path / "study", change=change)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"rates": (0.1, 0.1)}, r"rates \[0.1, 0.1\]: give one or more above 0, each once"),
        ({"rates": (0.0, 0.1)}, "above 0"),
        ({"rates": (0.1, float("inf"))}, "above 0"),
        ({"rates": (0.1, float("nan"))}, "above 0"),
        ({"rates": ()}, r"rates \[\]: give one or more"),
        ({"seeds": ()}, r"seeds \[\]: give one or more"),
        ({"seeds": (1, 1)}, r"seeds \[1, 1\]: give one or more from 0 on, each once"),
        ({"seeds": (-1,)}, "from 0 on"),
        ({"change": {"duraton": "2 steps"}}, "did you mean duration"),
        ({"data": "squars"}, "does not exist"),
    ],
)
def test_wrong_wishes_are_refused_before_there_is_a_folder(
    wrong: dict[str, Any], said: str, study, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=said):
        study(out=tmp_path / "study", **wrong)
    assert not (tmp_path / "study").exists()


def test_a_name_alone_has_no_weights_to_fine_tune(study, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="is a name alone, and table-5 fine-tunes weights"):
        study(weights="ViT-Mu/16", change={"image": 32}, out=tmp_path / "study")


def test_several_processes_are_refused(study, monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(UsageError, match="without torchrun"):
        study(out=tmp_path / "study")


def test_what_is_no_study_is_not_resumed(study, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no study to resume: there is no study\.json"):
        study(resume=tmp_path)
    with pytest.raises(UsageError, match="does not apply to --resume"):
        study(resume=tmp_path, out=tmp_path / "study")


def test_a_folder_that_is_used_is_refused(study, made_up, tmp_path: Path) -> None:
    made_up(by({"0.1": (0.5, 1.0), "0.01": (0.6, 1.0)}))
    study(out=tmp_path / "study")
    with pytest.raises(UsageError, match="never overwritten"):
        study(out=tmp_path / "study")
