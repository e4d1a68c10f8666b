"""VTAB-1k: a thousand pictures of each task, all tasks checked first, and the means by group."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from patchwords.data.sources.door import open_data
from patchwords.errors import DataError, UsageError
from patchwords.ops import draws
from patchwords.studies.protocols.vtab import Vtab, _given, read, vtab
from patchwords.training import recipe as recipes
from patchwords.training.signals import StoppedError
from patchwords.training.watch import Log

TASKS = """
[[task]]
data = "pairs.npz"
group = "natural"
name = "Pairs"

[[task]]
data = "sub/twins.npz"
group = "structured"

[[task]]
data = "digits"
group = "natural"
"""


@pytest.fixture(scope="module")
def folder(squares: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("tasks")
    (place / "sub").mkdir()
    squares(place / "pairs.npz", train=900, val=300, test=40)
    squares(place / "sub/twins.npz", train=1010, test=24)
    squares(place / "few.npz", train=999, test=24)
    (place / "tasks.toml").write_text(TASKS)
    (place / "one.toml").write_text('[[task]]\ndata = "pairs.npz"\ngroup = "natural"\n')
    return place


@pytest.fixture
def study(weights: str, folder: Path, tiny: dict[str, Any], tmp_path: Path) -> Callable[..., Vtab]:
    """`study()` is the protocol in its smallest size."""

    def run(**options: Any) -> Vtab:
        given = {"device": "cpu", "change": tiny, "watcher": Log(), "out": tmp_path / "study"} | options
        if "resume" in given:
            del given["out"]
        return vtab(given.pop("weights", weights), given.pop("tasks", folder / "tasks.toml"), **given)

    return run


def graded(recipe: Any, data: Any) -> tuple[float, float]:
    """An accuracy for each task and seed, and for a rate while it is chosen."""
    if len(data.train) == 800:
        return recipe.optimizer.lr, 1.0
    return {"Pairs": 0.9, "twins": 0.4, "digits": 0.6}[data.name] + 0.1 * recipe.seed * (data.name == "twins"), 1.0


def test_table_4_has_one_rate_and_2500_steps_for_it(study, made_up, tmp_path: Path) -> None:
    trainings = made_up(graded)
    study()
    found = trainings.recipes["seed-0"]
    assert recipes.read("paper/finetune-vtab").duration == "2500 steps"
    assert (found.optimizer.kind, found.optimizer.lr, found.optimizer.momentum) == ("sgd", 0.01, 0.9)
    assert trainings.places == ["seed-0"] * 3


def test_a_thousand_pictures_are_learned_from_and_all_of_the_test_part_judges(study, made_up, folder: Path) -> None:
    trainings = made_up(lambda recipe, data: (0.5, 1.0))
    study(tasks=folder / "one.toml", rates=(0.1, 0.01))
    learned, choosing = trainings.names("dev-lr-0.1", "train"), trainings.names("dev-lr-0.1", "val")
    assert (len(learned), len(choosing)) == (800, 200)
    assert trainings.names("seed-0", "train") == learned | choosing
    whole = open_data(folder / "pairs.npz", split=None)
    every = {source.name(index) for source in (whole.train, whole.val) for index in range(len(source))}
    assert learned | choosing < every
    assert trainings.names("seed-0", "val") == {whole.test.name(index) for index in range(40)}
    assert np.isclose(np.mean(trainings.data["seed-0"].train.labels), 0.5, atol=0.05)


def test_every_seed_and_every_study_takes_the_same_thousand(study, made_up, folder: Path, tmp_path: Path) -> None:
    first = made_up(lambda recipe, data: (0.5, 1.0))
    study(tasks=folder / "one.toml", seeds=(0, 1))
    once = first.names("seed-0", "train")
    assert first.names("seed-1", "train") == once
    second = made_up(lambda recipe, data: (0.5, 1.0))
    study(tasks=folder / "one.toml", out=tmp_path / "again")
    assert second.names("seed-0", "train") == once


def test_the_means_by_group_and_over_all_tasks(study, made_up, tmp_path: Path) -> None:
    made_up(graded)
    result = study(seeds=(0, 1))
    assert {name: task.mean for name, task in result.tasks.items()} == pytest.approx(
        {"Pairs": 0.9, "twins": 0.45, "digits": 0.6}
    )
    assert result.groups == pytest.approx({"natural": 0.75, "structured": 0.45})
    assert result.mean == pytest.approx((0.9 + 0.45 + 0.6) / 3)
    assert result.deviation == pytest.approx((0.1 / 3) / 2**0.5)  # the means of the seeds differ by a third of 0.1
    written = json.loads((tmp_path / "study/vtab-1k.json").read_text())
    assert written == {"protocol": "vtab-1k", **result.numbers()}
    assert [(task["name"], task["group"]) for task in written["tasks"]] == [
        ("Pairs", "natural"),
        ("twins", "structured"),
        ("digits", "natural"),
    ]


def test_one_seed_has_no_deviation(study, made_up) -> None:
    made_up(graded)
    assert study().deviation is None


def test_trainings_lie_below_their_task(study, made_up, tmp_path: Path) -> None:
    made_up(graded)
    study()
    assert {path.name for path in (tmp_path / "study").iterdir() if path.is_dir()} == {
        "01-Pairs",
        "02-twins",
        "03-digits",
    }
    assert (tmp_path / "study/02-twins/seed-0/run.json").is_file()


def test_shards_are_named_by_their_pattern(folder: Path) -> None:
    assert _given("x-{000..009}.tar", folder / "tasks.toml") == str(folder / "x-{000..009}.tar")


def test_the_digits_are_the_built_in_ones_whatever_lies_beside_the_list(tmp_path: Path) -> None:
    (tmp_path / "digits").mkdir()
    assert _given("digits", tmp_path / "tasks.toml") == "digits"
    assert _given("./digits", tmp_path / "tasks.toml") == str(tmp_path / "digits")


def test_classes_that_the_thousand_lack_are_named(study, made_up, folder: Path, notes) -> None:
    made_up(lambda recipe, data: (0.5, 1.0))
    images, labels = np.zeros((2000, 8, 8, 3), dtype=np.uint8), np.arange(2000) % 2
    labels[draws.permutation("vtab-1k", 0, of=2000)[-1]] = 2
    parts = {"test_images": images[:4], "test_labels": labels[:4] % 2}
    np.savez(folder / "rare.npz", train_images=images, train_labels=labels, **parts)
    (folder / "rare.toml").write_text('[[task]]\ndata = "rare.npz"\ngroup = "natural"\n')
    study(tasks=folder / "rare.toml", watcher=notes)
    assert "rare: none of the 1,000 pictures shows 1 of the classes (2)" in notes.said
    assert "rare is judged by its test part" in notes.said


def test_a_small_set_is_refused_before_the_first_training(study, made_up, folder: Path, tmp_path: Path) -> None:
    trainings = made_up(graded)
    (folder / "small.toml").write_text(TASKS + '[[task]]\ndata = "few.npz"\ngroup = "natural"\n')
    with pytest.raises(DataError, match="few has 999 pictures to learn from, and vtab-1k takes 1,000"):
        study(tasks=folder / "small.toml")
    assert trainings.places == []
    assert not (tmp_path / "study").exists()


def test_stopped_it_goes_on_with_the_task_where_it_was(study, trainings, folder: Path, tmp_path: Path) -> None:
    class Stop(Log):
        left = 3  # of two steps each

        def step(self, done: int, total: int) -> None:
            self.left -= 1
            if not self.left:
                os.kill(os.getpid(), signal.SIGTERM)

    (folder / "two.toml").write_text(TASKS.rpartition("[[task]]")[0])
    tasks = {"tasks": folder / "two.toml"}
    whole = study(out=tmp_path / "whole", **tasks)
    with pytest.raises(StoppedError, match=r"--protocol vtab-1k --resume .*/study` goes on"):
        study(watcher=Stop(), **tasks)
    trainings.places.clear()
    result = study(resume=tmp_path / "study", **tasks)
    assert len(trainings.places) == 1  # of two
    assert trainings.resumed == ["seed-0"]
    assert {name: task.accuracies for name, task in result.tasks.items()} == {
        name: task.accuracies for name, task in whole.tasks.items()
    }


def test_a_study_by_another_protocol_is_not_resumed(study, made_up, tmp_path: Path) -> None:
    made_up(graded)
    study()
    told = json.loads((tmp_path / "study/study.json").read_text())
    (tmp_path / "study/study.json").write_text(json.dumps(told | {"protocol": "table-5"}))
    with pytest.raises(UsageError, match="holds a study by --protocol table-5, not vtab-1k"):
        study(resume=tmp_path / "study")


def test_another_list_of_tasks_is_refused(study, made_up, folder: Path, tmp_path: Path) -> None:
    made_up(graded)
    study()
    (folder / "fewer.toml").write_text(TASKS.rpartition("[[task]]")[0])
    with pytest.raises(UsageError, match="the data is not what it was"):
        study(resume=tmp_path / "study", tasks=folder / "fewer.toml")


def test_the_share_to_choose_by_is_fixed(study) -> None:
    for change in ({"data.validation.share": 0.1}, {"data": {"validation": {"share": 0.1}}}):
        with pytest.raises(UsageError, match=r"data.validation.share is not for vtab-1k to be told: 200 pictures"):
            study(change=change)


# The file


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[[task]]\ndta = "pets"\ngroup = "natural"', r"task\[0\].dta is not a setting; did you mean data\?"),
        ('[[task]]\ndata = "pets"', r"task\[0\].group is missing"),
        ('[[task]]\ndata = 3\ngroup = "natural"', r"task\[0\].data: 3 is not a text"),
        ('[[task]]\ndata = ""\ngroup = "natural"', "data '' and group 'natural' must be named"),
        ('[[tasks]]\ndata = "pets"\ngroup = "natural"', r"tasks is not a setting; did you mean task\?"),
        ("task = 3", "3 is not a list"),
        ("task = []", "it has none; write"),
        ("[[task]\n", "no list of tasks: Expected"),
        ('[[task]]\ndata="a/pets"\ngroup="x"\n[[task]]\ndata="pets"\ngroup="y"', "two tasks are called 'pets'"),
    ],
)
def test_a_wrong_file_is_refused_in_a_sentence(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "tasks.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=said) as caught:
        read(path)
    assert str(path) in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"none.toml cannot be read \(No such file or directory\)"):
        read(tmp_path / "none.toml")


def test_data_that_is_neither_a_path_nor_known_hears_the_nearest_name(study, folder: Path, tmp_path) -> None:
    (folder / "wrong.toml").write_text('[[task]]\ndata = "digit"\ngroup = "natural"\n')
    with pytest.raises(UsageError, match=r"data 'digit' is no path from .* and no known name; did you mean digits\?"):
        study(tasks=folder / "wrong.toml")
