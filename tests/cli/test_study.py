"""`patchwords study` as a person runs it: what is listed, what is told, and what is refused with which code."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from patchwords.studies.catalogue import EXPERIMENTS
from patchwords.training import train as training

GRID = """
recipe = "digits"
both = { batch = 8, image = 8, parts = { depth = 1, width = 16, mlp = 16, heads = 2 }, data.workers = 0 }
learn.duration = "2 steps"
tune.duration = "1 steps"
models.ViT.model = "ViT-Digits/4"
study.transfer.model = "ViT"
"""


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)
    monkeypatch.setattr(training, "report", lambda folder, _: (folder / "report.html").touch())


@pytest.fixture
def begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The words of a study that takes a second, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    labels = np.arange(40) % 4
    images = (np.random.default_rng(0).integers(0, 100, (40, 8, 8)) + 40 * labels[:, None, None]).astype(np.uint8)
    np.savez("tiny.npz", images=images, labels=labels)
    Path("tiny.toml").write_text(GRID)
    return ["study", "transfer", "tiny.npz", "--grid", "tiny.toml", "--device", "cpu", "--out", "there"]


def test_list_names_all_studies(run: Callable[..., Any]) -> None:
    answer = run("study", "list")
    assert answer.code == 0
    for name, each in EXPERIMENTS.items():
        assert name in answer.out
        assert each.of.split(",")[0] in answer.out
    assert answer.err == ""


def test_list_is_a_line_each_for_programs(run: Callable[..., Any]) -> None:
    rows = run("study", "list", "--json").json
    assert [row["name"] for row in rows] == list(EXPERIMENTS)
    assert all(row.keys() == {"kind", "name", "of", "question"} for row in rows)
    assert {row["kind"] for row in rows} == {"study"}


@pytest.mark.parametrize(
    "more",
    [
        ["digits"],
        ["--target", "x"],
        ["--weights", "x"],
        ["--grid", "digits"],
        ["--set", "a=1"],
        ["--seeds", "1"],
        ["--out", "x"],
        ["--resume", "x"],
        ["--at-once", "2"],
        ["--device", "cpu"],
        ["--offline"],
        ["--mirror", "a=https://b"],
    ],
)
def test_list_takes_nothing_more(more: list[str], run: Callable[..., Any]) -> None:
    answer = run("study", "list", *more)
    assert answer.code == 2
    assert "`patchwords study list` takes nothing more" in answer.err
    assert answer.out == ""


def test_a_study_tells_how_far_it_is_and_what_it_found(run: Callable[..., Any], begin: list[str]) -> None:
    answer = run(*begin)
    assert answer.code == 0, answer.err
    said = " ".join(answer.err.split())
    assert "4 trainings" in said
    assert "4 of 4: from-scratch-ViT-from-scratch-seed-0, accuracy" in said
    here, paper, last = (line for line in answer.out.splitlines() if line)
    stored = json.loads(Path("there/results.json").read_text())["finding"]
    assert (here, paper) == (stored["here"]["english"], stored["paper"]["english"])
    assert last == "look at there/report.html"
    assert Path("there/report.html").exists()


def test_for_programs_every_remark_and_the_result_are_lines(run: Callable[..., Any], begin: list[str]) -> None:
    answer = run(*begin, "--json", "--seeds", "3")
    *others, result = answer.json
    assert result["kind"] == "result"
    assert (result["study"], result["folder"], result["report"]) == ("transfer", "there", "there/report.html")
    assert result["finding"]["here"].keys() == {"english", "chinese"}
    assert any(line.get("note", "").startswith("4 of 4: ") for line in others)
    assert {row["seed"] for row in json.loads(Path("there/results.json").read_text())["rows"]} == {3}


def test_what_is_quiet_tells_the_finding_alone(run: Callable[..., Any], begin: list[str]) -> None:
    answer = run(*begin, "--quiet")
    assert answer.err == ""
    assert len(answer.out.splitlines()) == 3


def test_settings_and_several_at_once_are_handed_on(
    run: Callable[..., Any], begin: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, Any] = {}

    def study(*given: Any, **options: Any) -> None:
        asked.update(options, name=given[0], data=given[1])
        raise SystemExit(0)

    monkeypatch.setattr("patchwords.studies.study.study", study)
    run(*begin, "--set", "shares=[0.1,1]", "--set", "learn.duration=200 steps", "--seeds", "0,2", "--at-once", "3")
    assert (asked["name"], asked["data"], asked["grid"]) == ("transfer", "tiny.npz", "tiny.toml")
    assert asked["change"] == {"shares": [0.1, 1], "learn.duration": "200 steps"}
    assert (asked["seeds"], asked["at_once"], asked["device"]) == ((0, 2), 3, "cpu")
    assert (asked["out"], asked["resume"]) == (Path("there"), None)


def test_a_study_that_was_done_is_told_again(run: Callable[..., Any], begin: list[str]) -> None:
    first = run(*begin)
    again = run("study", "transfer", "--resume", "there", "--device", "cpu")
    assert again.code == 0
    assert again.out == first.out
    assert "4 trainings, 4 of them done" in again.err


@pytest.mark.parametrize("option", [["--grid", "small"], ["--set", "learn.batch=4"], ["--seeds", "1"], ["--out", "x"]])
def test_options_that_are_kept_are_refused_beside_resume(
    option: list[str], run: Callable[..., Any], begin: list[str]
) -> None:
    run(*begin)
    before = sorted(path.name for path in Path().iterdir())
    answer = run("study", "transfer", "--resume", "there", *option)
    assert answer.code == 2
    assert f"{option[0]} " in answer.err
    assert "does not apply to --resume" in answer.err
    assert sorted(path.name for path in Path().iterdir()) == before


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["study", "lists"], 2, "'lists' is no study"),
        (["study", "tranfer"], 2, "did you mean transfer"),
        (["study", "transfer", "nowhere"], 2, "'nowhere' does not exist"),
        (["study", "transfer", "tiny.npz", "--grid", "tinny"], 2, "grid 'tinny' is neither a file nor known"),
        (["study", "transfer", "tiny.npz", "--grid", "broken.toml"], 2, "cannot be read as TOML"),
        (["study", "head", "tiny.npz", "--weights", "x.npz"], 2, "--weights x.npz does not apply to head"),
        (["study", "transfer", "tiny.npz", "--seeds", "one"], 2, "--seeds 'one' is no list of numbers"),
        (["study", "transfer", "tiny.npz", "--seeds", "1,1"], 2, "give each once"),
        (["study", "transfer", "tiny.npz", "--at-once", "0"], 2, "at_once 0 is below 1"),
        (["study", "transfer", "tiny.npz", "--set", "shares"], 2, "'shares' is not a setting"),
        (["study", "transfer", "tiny.npz", "--set", "modle=ViT"], 2, "did you mean model"),
        (["study", "transfer", "two.npz"], 3, "has 2 classes, too few"),
        (["study", "transfer", "tiny.npz", "--weights", "ViT-Ti/16"], 4, "is a name alone"),
        (["study", "transfer", "--resume", "nowhere"], 2, "nowhere is no study to resume"),
        (["study", "transfer", "tiny.npz", "--out", "tiny.npz"], 2, "is a file"),
    ],
)
def test_a_wrong_word_is_a_sentence_and_a_code(
    words: list[str], code: int, said: str, run: Callable[..., Any], begin: list[str]
) -> None:
    Path("broken.toml").write_text("= 3")
    np.savez("two.npz", images=np.zeros((20, 8, 8), dtype=np.uint8), labels=np.arange(20) % 2)
    answer = run(*words)
    assert answer.code == code
    assert said in answer.err
    assert answer.err.splitlines()[-1].startswith("patchwords: ")
    assert answer.out == ""
    assert not Path("runs").exists()


def test_show_tells_how_far_a_study_got_and_what_goes_on_with_it(run: Callable[..., Any], begin: list[str]) -> None:
    run(*begin)
    Path("there/from-scratch-ViT-from-scratch-seed-0/outcome.json").unlink()  # as if it had stopped before that
    answer = run("show", "there")
    assert answer.code == 0
    assert "there: the study transfer on" in answer.out
    assert "3 of 4 done" in answer.out
    assert "`patchwords study transfer --resume there` goes on with it" in answer.out
    assert "finding" not in answer.out
    (row,) = run("show", "there", "--json").json
    assert (row["study"], row["trainings"], row["done"], row["finding"]) == ("transfer", 4, 3, {})


def test_show_tells_what_a_finished_study_found(run: Callable[..., Any], begin: list[str]) -> None:
    told = run(*begin).out.splitlines()
    answer = run("show", "there")
    assert "4 of 4 done" in answer.out
    assert f"{told[0]} {told[1]}" in answer.out
    assert "look at there/report.html" in answer.out
    (row,) = run("show", "there", "--json").json
    assert row["finding"] == json.loads(Path("there/results.json").read_text())["finding"]
    assert row["device"].startswith("cpu")


@pytest.mark.parametrize("more", [["--set", "a=1"], ["--image", "8"], ["--out", "x"]])
def test_a_study_is_shown_as_it_is(more: list[str], run: Callable[..., Any], begin: list[str]) -> None:
    run(*begin)
    answer = run("show", "there", *more)
    assert answer.code == 2
    assert f"{more[0]} does not apply to a study, which says it itself" in answer.err
