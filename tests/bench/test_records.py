"""benchmarks/records.py: trainings in chains, a seed each, told in one table; and every candidate can be begun."""

import json
import shutil
from pathlib import Path

import pytest

from benchmarks import records, trainings
from benchmarks.records import Training, chained, one, outcome, table
from patchwords import settings
from patchwords.models.names import read
from patchwords.training import recipe as recipes

STEPS = {"duration": "3 steps", "batch": 16, "micro": 16, "evaluate": "100%", "threads": 1}
CHAIN = {
    "masked": Training(data="digits", recipe="digits-masked-patch", change=STEPS),
    "teacher": Training(data="digits", recipe="digits", change=STEPS),
    "tuned": Training(data="digits", recipe="digits", weights="masked", change=STEPS | {"model": ""}),
    "student": Training(
        data="digits", recipe="digits", teacher="teacher", change=STEPS | {"objective": {"kind": "distill"}}
    ),
}
DATA = {"digits": "digits"}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All of a chain for seed 0, and its beginning for seed 1."""
    out = tmp_path_factory.mktemp("records")
    for task in ("masked-0", "teacher-0", "tuned-0", "student-0", "teacher-1"):
        one(task, CHAIN, DATA, out, {})
    return out


def test_what_comes_before_comes_first_and_once() -> None:
    assert chained(["tuned", "student", "masked"], CHAIN) == ["masked", "tuned", "teacher", "student"]


def test_a_training_begins_with_those_of_its_seed(trained: Path) -> None:
    tuned, student = (recipes.read(trained / name / "recipe.toml") for name in ("tuned-0", "student-0"))
    assert tuned.weights == str(trained / "masked-0")
    assert settings.write(student.objective)["teacher"] == str(trained / "teacher-0")
    assert recipes.read(trained / "teacher-1" / "recipe.toml").seed == 1
    assert tuned.best == "last"


def test_the_table_tells_of_what_has_ended(trained: Path) -> None:
    lines = [[cell.strip() for cell in line.strip("| ").split("|")] for line in table(trained, CHAIN).splitlines()]
    assert [line[0] for line in lines[2:]] == ["masked", "teacher", "tuned", "student"]
    told = {line[0]: dict(zip(lines[0], line, strict=False)) for line in lines[2:]}
    first, second = (json.loads((trained / f"teacher-{seed}" / "run.json").read_text("utf-8")) for seed in (0, 1))
    mean = 50 * (first["scores"]["accuracy"] + second["scores"]["accuracy"])
    assert told["teacher"]["seeds"] == "0, 1"
    assert float(told["teacher"]["accuracy, %"].split("±")[0]) == pytest.approx(mean, abs=0.06)
    assert told["masked"]["accuracy, %"] == ""  # it has learned without labels
    whole = sum(outcome(trained / f"{name}-0").seconds for name in ("masked", "tuned"))
    assert float(told["tuned"]["with what came before"]) == pytest.approx(whole, abs=0.6)
    assert told["tuned"]["seconds to 90 %"] == "not all"


def test_the_first_time_that_a_mark_is_reached(trained: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(trained / "teacher-0", run)
    rows = [{"kind": "val", "seconds": each, "accuracy": score} for each, score in ((5, 0.5), (6, 0.91), (7, 0.9))]
    (run / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    found = outcome(run)
    assert found is not None
    assert found.reached == (6, None)


def test_what_has_not_ended_is_not_told(trained: Path, tmp_path: Path) -> None:
    run = tmp_path / "teacher-0"
    shutil.copytree(trained / "teacher-0", run)
    told = json.loads((run / "run.json").read_text("utf-8"))
    (run / "run.json").write_text(json.dumps(told | {"status": "stopped"}), "utf-8")
    assert outcome(run) is None
    assert table(tmp_path, CHAIN).count("\n") == 1


@pytest.mark.parametrize("name", records.trainings())
def test_every_candidate_is_one_that_can_be_begun(name: str) -> None:
    """Its recipe is known, its changes are settings, its model can be built, and what it begins with comes before."""
    every = records.trainings()
    training = every[name]
    change = {key: {} for key, value in training.change.items() if value == {}} | settings.dotted(training.change)
    recipe = recipes.read(training.recipe, {"best": "last"} | change)
    names = list(every)
    assert all(
        names.index(other) < names.index(name) and every[other].data == training.data for other in training.after
    )
    assert bool(training.weights) != bool(recipe.model)
    if recipe.model:
        settings.change(read(recipe.model), settings.dotted(recipe.parts))
    assert (recipe.objective.kind == "distill") == bool(training.teacher)


def test_tasks_wait_for_others_and_those_of_what_failed_are_left(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    script = "import sys, pathlib; p = pathlib.Path(sys.argv[1]); sys.exit(p.name == 'b' or p.write_text('') and 0)"
    waits = {"c": ["a"], "a": [], "b": [], "d": ["b"]}
    words = {name: ["-c", script, str(tmp_path / name)] for name in waits}
    trainings.perform(waits, words, tmp_path, together=2, minutes=5)
    assert [path.stem for path in sorted(tmp_path.glob("*.done"))] == ["a", "c"]
    said = capsys.readouterr().out
    assert "b: left with 1" in said
    assert said.index("a: done") < said.index("c: done")
    trainings.perform(waits, words, tmp_path, together=2, minutes=5)
    assert "a: done" not in capsys.readouterr().out


def test_the_end_stops_who_is_still_at_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trainings, "LEAVE", 0.0)
    words = {"slow": ["-c", "import time; time.sleep(600)"]}
    trainings.perform({"slow": []}, words, tmp_path, together=1, minutes=1 / 60)
    assert not (tmp_path / "slow.done").exists()
