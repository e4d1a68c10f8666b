"""`patchwords.study` from its arguments to its folder: what is left there, what goes on, and what is refused."""

import csv
import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import patchwords
from patchwords.errors import DataError, UsageError
from patchwords.studies import below
from patchwords.studies.study import Studied, study
from patchwords.studies.wording import NOTHING
from patchwords.training.signals import StoppedError
from patchwords.training.watch import Log


@pytest.fixture(scope="module")
def data(squares: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return squares(tmp_path_factory.mktemp("data") / "squares.npz", classes=4, train=40, test=12)


@pytest.fixture(scope="module")
def ask(data: Path, grid_file: Path) -> Callable[..., Studied]:
    """`ask("transfer")` is a study of the squares on the tiny grid."""

    def run(name: str, **given: Any) -> Studied:
        usual = {"data": data, "grid": grid_file, "device": "cpu"}
        return study(name, **(usual if "resume" not in given else {"device": "cpu"}) | given)

    return run


@pytest.fixture(scope="module")
def whole(ask: Callable[..., Studied], tmp_path_factory: pytest.TempPathFactory) -> Studied:
    """A study of eight trainings, with two seeds."""
    folder = tmp_path_factory.mktemp("whole") / "study"
    return ask("data-size", out=folder, seeds=(0, 1), change={"models": ["twin"]})


def scores(studied: Studied) -> list[dict[str, Any]]:
    """All that does not depend on the time."""
    return [{key: value for key, value in row.items() if key != "seconds"} for row in studied.rows]


@pytest.fixture
def count(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The trainings that are begun or gone on with."""
    real, found = below.train, []

    def counted(*given: Any, **options: Any) -> Any:
        found.append(Path(options["out"] or options["resume"]).name)
        return real(*given, **options)

    monkeypatch.setattr(below, "train", counted)
    return found


def test_the_folder_holds_the_report_the_figure_the_tables_and_every_training(whole: Studied) -> None:
    names = {path.name for path in whole.folder.iterdir() if not path.name.startswith(".")}
    trainings = {
        f"{stage}-twin-{share}-seed-{seed}"
        for stage in ("pre-training", "fine-tuning")
        for share in (0.5, 1.0)
        for seed in (0, 1)
    }
    assert names == trainings | {"study.json", "results.csv", "results.json", "figure.png", "report.html"}
    assert whole.report == whole.folder / "report.html"
    assert (whole.folder / "figure.png").read_bytes().startswith(b"\x89PNG")


def test_the_tables_hold_a_row_for_each_training(whole: Studied) -> None:
    rows = list(csv.DictReader((whole.folder / "results.csv").read_text().splitlines()))
    stored = json.loads((whole.folder / "results.json").read_text())
    assert stored["rows"] == whole.rows
    assert len(rows) == len(whole.rows) == 8
    for row, known in zip(rows, whole.rows, strict=True):
        assert {key: row[key] for key in known} == {key: str(value) for key, value in known.items()}
    assert {(row["stage"], row["share"], row["seed"]) for row in rows} == {
        (stage, share, seed) for stage in ("pre-training", "fine-tuning") for share in ("0.5", "1.0") for seed in "01"
    }
    assert {row["pictures"] for row in rows if row["share"] == "0.5"} == {"10", "20"}  # a half to learn, all to tune


def test_the_finding_is_two_sentences_everywhere(whole: Studied) -> None:
    here, paper = whole.finding
    assert "nothing to set beside" in here.english  # one model alone
    assert "ResNet" in paper.english
    stored = json.loads((whole.folder / "results.json").read_text())
    assert stored["finding"] == {"here": here._asdict(), "paper": paper._asdict()}
    page = whole.report.read_text()
    assert all(words in page for words in (here.english, here.chinese, paper.english, paper.chinese))


def test_the_folder_says_how_it_was_made(whole: Studied, data: Path) -> None:
    made = json.loads((whole.folder / "results.json").read_text())["made"]
    assert (made["pictures"], made["seeds"], made["device"].partition(",")[0]) == ("squares.npz", "0, 1", "cpu")
    terms = json.loads((whole.folder / "study.json").read_text())["terms"]
    assert (terms["study"], terms["data"]) == ("data-size", str(data))


@pytest.mark.parametrize("number", [0, -1])
def test_a_training_can_be_evaluated_by_the_pictures_that_judged_it(
    whole: Studied, number: int, tmp_path: Path
) -> None:
    row, model = whole.rows[number], whole.folder / whole.results.rows[number].cell.name
    found = patchwords.evaluate(model, device="cpu", out=tmp_path / "page")
    assert found.judgement is not None
    assert found.judgement.scores.accuracy == pytest.approx(row["accuracy"])
    assert found.judgement.scores.count == row["judged"]


def test_a_finished_study_trains_nothing_more(whole: Studied, ask, count: list[str]) -> None:
    before = {name: (whole.folder / name).read_bytes() for name in ("results.csv", "figure.png")}
    again = ask("data-size", resume=whole.folder)
    assert count == []
    assert again.rows == whole.rows
    assert before == {name: (whole.folder / name).read_bytes() for name in before}


def test_a_study_that_was_stopped_goes_on_where_it_was(whole: Studied, ask, count: list[str], tmp_path: Path) -> None:
    class Stop(Log):
        left = 6

        def step(self, done: int, total: int) -> None:
            self.left -= 1
            if not self.left:
                os.kill(os.getpid(), signal.SIGTERM)

    folder = tmp_path / "study"
    with pytest.raises(StoppedError, match=rf"`patchwords study data-size --resume {folder}` goes on") as stopped:
        ask("data-size", out=folder, seeds=(0, 1), change={"models": ["twin"]}, watcher=Stop())
    assert stopped.value.exit_code == 143
    assert not (folder / "report.html").exists()
    begun = list(count)
    assert 1 < len(begun) < 8
    count.clear()
    again = ask("data-size", resume=str(folder))
    assert count[0] == begun[-1]
    assert not set(count) & set(begun[:-1])
    assert scores(again) == scores(whole)


def test_a_part_of_a_study_is_not_gone_on_with_alone(ask, tmp_path: Path) -> None:
    class Stop(Log):
        def step(self, done: int, total: int) -> None:
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(StoppedError):
        ask("transfer", out=tmp_path / "study", watcher=Stop())
    with pytest.raises(UsageError, match=rf"`patchwords study transfer --resume {tmp_path / 'study'}`"):
        patchwords.train(resume=tmp_path / "study" / "pre-training-ViT-seed-0")


def test_trainings_are_counted_and_told(ask, notes, tmp_path: Path) -> None:
    ask("transfer", out=tmp_path / "study", watcher=notes)
    assert "4 trainings" in notes.notes
    told = [remark for remark in notes.notes if " of 4: " in remark]
    assert [remark.partition(" ")[0] for remark in told] == list("1234")
    assert "few-shot accuracy" in told[0]
    assert all("accuracy" in remark for remark in told)
    notes.notes.clear()
    ask("transfer", resume=tmp_path / "study", watcher=notes)
    assert "4 trainings, 4 of them done" in notes.notes
    assert not [remark for remark in notes.notes if " of 4: " in remark]


def test_a_target_judges_what_all_of_the_data_taught(ask, squares, tmp_path: Path) -> None:
    target = squares(tmp_path / "judge.npz", classes=3, train=30, val=9)
    found = ask("transfer", target=target, out=tmp_path / "study")
    learned, *others = found.rows
    assert (learned["judged"], learned["few_shot_judged"]) == (12, 9)
    assert {row["judged"] for row in others} == {9}
    assert "judge.npz" in found.report.read_text()


def test_weights_are_fine_tuned_and_set_beside_what_begins_without(ask, tmp_path: Path) -> None:
    path = tmp_path / "digits.safetensors"
    patchwords.save(patchwords.build("ViT-Digits/2", classes=7), path)
    found = ask("transfer", weights=path, out=tmp_path / "study")
    assert [(row["stage"], row["trained"]) for row in found.rows] == [
        ("fine-tuning", "head alone"),
        ("fine-tuning", "all of it"),
        ("from scratch", "from scratch"),
    ]
    assert len({row["parameters"] for row in found.rows}) == 1
    assert {row["judged"] for row in found.rows} == {12}
    head = (tmp_path / "study" / "fine-tuning-weights-head-alone-seed-0" / "recipe.toml").read_text()
    assert f'weights = "{path}"' in head
    assert 'freeze = "backbone"' in head
    assert ask("transfer", resume=found.folder).rows == found.rows


def test_folders_without_a_name_are_numbered(ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made = [ask("transfer").folder for _ in range(2)]
    assert made == [Path("runs/study-transfer-squares-1"), Path("runs/study-transfer-squares-2")]


def test_a_loss_that_becomes_infinite_ends_its_cell_alone(ask, tmp_path: Path, notes) -> None:
    change = {"study.transfer.head": {"optimizer.lr": 3e38, "clip": 0.0}, "tune.duration": "4 steps"}
    found = ask("transfer", out=tmp_path / "study", change=change, watcher=notes)
    lost = [row for row in found.rows if "lost" in row]
    assert [row["trained"] for row in lost] == ["head alone"]
    assert "accuracy" not in lost[0]
    assert "without a result: step" in notes.said
    assert found.finding.here == NOTHING
    assert "lost" in (tmp_path / "study" / "results.csv").read_text().splitlines()[0]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"name": "datasize"}, "did you mean data-size"),
        ({"at_once": 0}, "at_once 0 is below 1"),
        ({"seeds": 3}, "seeds: 3 is not a list: write one in brackets"),
        ({"resume": "there", "out": "here"}, "--out here does not apply to --resume: the study stays in there"),
        ({"resume": "nowhere"}, "nowhere is no study to resume"),
        ({"name": "positions"}, r"the grid says nothing of positions: add a table \[study.positions\]"),
        ({"change": {"shares": []}}, "shares of data-size is empty"),
        ({"change": {"share": [0.5]}}, "did you mean shares"),
        ({"change": {"models": ["twins"]}}, "model 'twins' takes no part; did you mean twin"),
        ({"change": {"shares": [1.5]}}, "share 1.5 of the pictures is not above 0 and at most 1"),
        ({"change": {"learn.batches": 3}}, "batches is not a setting; did you mean batch"),
        ({"change": {"models.twin.both.parts.width": 15}}, r"pre-training-twin-0.5-seed-0 cannot be trained: .*15"),
        ({"device": "cuda:99"}, "cuda"),
        (
            {"name": "self-supervision", "grid": "digits", "change": {"model": "ResNet"}},
            "pre-training-ResNet-masked-patches-seed-0 cannot be trained: objective masked_patch hides patches",
        ),
        (
            {"name": "resolution", "grid": "digits", "change": {"model": "ResNet"}},
            'fine-tuning-ResNet-larger-anew-seed-0 cannot be trained: positions "anew" has nothing to start anew',
        ),
        ({"name": "transfer", "change": {"tune.freeze": "blocks 9"}}, "fine-tuning-.* the model has 1"),
    ],
)
def test_what_cannot_be_studied_is_refused_before_there_is_a_folder(
    given: dict[str, Any], said: str, ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=said):
        ask(given.pop("name", "data-size"), **given)
    assert not list(tmp_path.iterdir())


def test_a_study_that_varies_nothing_is_refused(data: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="scaling"):
        study("scaling", data, grid="digits", change={"families": {}}, out=tmp_path / "study", device="cpu")
    assert not (tmp_path / "study").exists()


def test_two_classes_are_too_few_to_learn_from_and_to_be_judged_by_others(ask, squares, tmp_path: Path) -> None:
    two = squares(tmp_path / "two.npz", train=20, val=4)
    with pytest.raises(DataError, match=r"has 2 classes, too few .* --target"):
        ask("transfer", data=two, out=tmp_path / "study")


def test_a_folder_in_use_is_left_alone(ask, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").touch()
    with pytest.raises(UsageError, match="is not empty"):
        ask("transfer", out=tmp_path)
    assert [path.name for path in tmp_path.iterdir() if not path.name.startswith(".")] == ["mine.txt"]


class Stop(Log):
    """As SIGTERM within the first fine-tuning."""

    def step(self, done: int, total: int) -> None:
        if total == 3:
            os.kill(os.getpid(), signal.SIGTERM)


def test_a_folder_that_was_moved_in_the_middle_of_a_fine_tuning_goes_on(whole: Studied, ask, tmp_path: Path) -> None:
    change = {"models": ["twin"], "tune.duration": "3 steps"}
    with pytest.raises(StoppedError):
        ask("data-size", out=tmp_path / "here", seeds=(0,), change=change, watcher=Stop())
    (tmp_path / "here").rename(tmp_path / "there")
    done = ask("data-size", resume=os.path.relpath(tmp_path / "there"))
    assert len(done.rows) == 4
    assert scores(done) == scores(ask("data-size", out=tmp_path / "whole", seeds=(0,), change=change))


def test_data_that_was_moved_is_found_where_it_was_last_said_to_be(ask, data: Path, tmp_path: Path) -> None:
    lent = tmp_path / "lent.npz"
    lent.write_bytes(data.read_bytes())
    folder = ask("transfer", data=lent, out=tmp_path / "study").folder
    moved = lent.rename(tmp_path / "moved.npz")
    with pytest.raises(UsageError, match=f"say where it is now, `patchwords study transfer DATA --resume {folder}`"):
        ask("transfer", resume=folder)
    ask("transfer", data=moved, resume=folder)
    ask("transfer", resume=folder)
    runs = list(folder.glob("*/run.json"))
    assert {json.loads(path.read_text())["data"] for path in runs} == {str(moved)}  # `evaluate` finds it, too
    assert len(runs) == 4


def test_a_recipe_that_changed_meanwhile_changes_nothing(ask, data: Path, grid_file: Path, tmp_path: Path) -> None:
    recipe, grid = tmp_path / "mine.toml", tmp_path / "grid.toml"
    recipe.write_text('base = "digits"\noptimizer.lr = 0.01\n')
    grid.write_text(grid_file.read_text().replace('recipe = "digits"', f'recipe = "{recipe}"'))
    change = {"models": ["twin"], "shares": [1.0], "tune.duration": "3 steps"}
    with pytest.raises(StoppedError):
        ask("data-size", grid=grid, out=tmp_path / "study", change=change, watcher=Stop())
    recipe.unlink()
    done = ask("data-size", resume=tmp_path / "study")
    assert {row.cell.recipe.optimizer.lr for row in done.results.rows if row.cell.stage == "pre-training"} == {0.01}


def test_a_version_that_plans_other_trainings_does_not_go_on(ask, tmp_path: Path) -> None:
    folder = ask("transfer", out=tmp_path / "study").folder
    began = json.loads((folder / "study.json").read_text())
    began["cells"].append("a training that there was")
    (folder / "study.json").write_text(json.dumps(began))
    with pytest.raises(UsageError, match=r"other trainings than this version plans .*a training that there was"):
        ask("transfer", resume=folder)


def test_another_place_to_go_on_in_is_told(ask, notes, tmp_path: Path) -> None:
    folder = ask("transfer", out=tmp_path / "study").folder
    began = json.loads((folder / "study.json").read_text())
    began["environment"]["torch"] = "2.0"
    (folder / "study.json").write_text(json.dumps(began))
    ask("transfer", resume=folder, watcher=notes)
    assert "the version of torch" in notes.said


def test_data_does_not_judge_what_it_has_taught(ask, data: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the data itself"):
        ask("transfer", target=data, out=tmp_path / "study")
    assert not (tmp_path / "study").exists()
