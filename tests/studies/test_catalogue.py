"""All studies, by their names, as the grids of the package have them."""

import re
from dataclasses import replace
from typing import Any

import pytest

from patchwords.errors import UsageError
from patchwords.studies import grid as grids
from patchwords.studies.catalogue import EXPERIMENTS, find, planned
from patchwords.studies.cell import each_once
from patchwords.studies.experiments.data_size import DataSize
from patchwords.studies.grid import Grid, Member


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_study_has_a_name_a_place_in_the_paper_and_a_question_in_both_languages(name: str) -> None:
    study = find(name)
    assert study.name == name
    assert re.fullmatch("[a-z]+(-[a-z]+)*", name)
    assert re.match("(Figures?|Table|Section|Appendix) ", study.of)
    assert study.question.english.endswith("?")
    assert study.question.chinese.endswith("\uff1f")
    for words in (study.title, study.question):
        assert re.search("[\u4e00-\u9fff]", words.chinese)
        assert words.english.isascii()


def test_no_two_studies_are_called_alike() -> None:
    for called in ("title", "question"):
        assert len({getattr(study, called) for study in EXPERIMENTS.values()}) == len(EXPERIMENTS) == 9


@pytest.mark.parametrize(
    ("name", "near"),
    [("data_size", "data-size"), ("Scaling", "scaling"), ("optimiser", "optimizer"), ("x", "there are")],
)
def test_another_name_is_answered_with_the_nearest(name: str, near: str) -> None:
    with pytest.raises(UsageError, match=f"'{name}' is no study; .*{near}"):
        find(name)


@pytest.mark.parametrize("grid", grids.names())
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_study_is_planned_in_every_grid(name: str, grid: str, stand: Any) -> None:
    read = grids.read(grid, name, {})
    cells = each_once(planned(name, read).cells(stand(read), (0, 1)))
    assert cells
    assert all(cell.config for cell in cells)


def test_models_whose_folders_some_systems_would_take_for_one_are_refused(stand: Any) -> None:
    grid = Grid(recipe="digits", models=dict.fromkeys(("ViT", "vit"), Member(model="ViT-Digits/2")), study={})
    study = DataSize(models=("ViT", "vit"), shares=(1.0,))
    with pytest.raises(UsageError, match="share the folder pre-training-vit"):
        each_once(study.cells(stand(grid), (0,)))


@pytest.mark.parametrize("grid", grids.names())
def test_every_model_of_a_grid_takes_part_in_a_study(grid: str) -> None:
    read = grids.read(grid, "head", {})
    said = str(read.study)
    assert all(f"'{name}'" in said for name in read.models)


@pytest.mark.parametrize("grid", grids.names())
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_what_was_varied_has_a_column_of_its_own(name: str, grid: str, stand: Any) -> None:
    numbers = {"stage", "seed", "accuracy", "loss", "judged", "few_shot", "few_shot_judged", "pictures", "steps"}
    numbers |= {"seen", "parameters", "exaflops", "seconds", "lost"}
    read = grids.read(grid, name, {})
    for cell in planned(name, read).cells(stand(read), (0,)):
        assert not numbers & cell.at.keys()


def tiny(**study: Any) -> Grid:
    return Grid(recipe="digits", models={}, study={key.replace("_", "-"): table for key, table in study.items()})


def test_a_grid_that_says_nothing_of_a_study_is_refused() -> None:
    with pytest.raises(UsageError, match=r"says nothing of head: add a table \[study.head\]"):
        planned("head", tiny(transfer={"model": "ViT"}))


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"models": ["ViT"], "share": [0.1]}, "share is not a setting; did you mean shares"),
        ({"models": ["ViT"]}, "shares is missing"),
        ({"models": ["ViT"], "shares": 0.1}, "shares: 0.1 is not a list"),
        ({"models": ["ViT"], "shares": []}, "shares of data-size is empty"),
        ({"models": [], "shares": [0.1]}, "models of data-size is empty"),
    ],
)
def test_what_a_study_varies_is_read_strictly(table: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        planned("data-size", tiny(data_size=table))


def test_a_model_that_takes_no_part_is_answered_with_the_nearest(stand: Any) -> None:
    read = grids.read("digits", "head", {"model": "Vit"})
    with pytest.raises(UsageError, match="'Vit' takes no part; did you mean ViT"):
        list(planned("head", read).cells(stand(read), (0,)))


def test_a_study_of_other_values_is_planned_with_these(stand: Any) -> None:
    read = grids.read("digits", "data-size", {"shares": [0.5], "models": ["ViT"], "seeds": [3, 4]})
    assert read.seeds == (3, 4)
    found = {(cell.at["model"], cell.at["share"]) for cell in planned("data-size", read).cells(stand(read), read.seeds)}
    assert found == {("ViT", 0.5)}
    assert replace(read, study={}) == replace(grids.read("digits", "head", {"seeds": [3, 4]}), study={})


@pytest.mark.parametrize("name", EXPERIMENTS)
@pytest.mark.parametrize("score", [None, 0.0, 0.5, 1.0])
def test_every_finding_is_in_both_languages_whatever_was_found(name: str, score: float | None, made_up_results) -> None:
    numbers = None if score is None else {"accuracy": score, "few_shot": score}
    experiment, results = made_up_results(name, lambda cell: numbers)
    for words in experiment.finding(results):
        assert words.english.endswith(".")
        assert words.chinese.endswith("。")
        assert re.search("[\u4e00-\u9fff]", words.chinese)
        assert not re.search("[\u4e00-\u9fff]", words.english)
        assert not re.search(r"\bnan\b|\binf\b|None", words.english)
