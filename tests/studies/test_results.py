"""Means over seeds, what is more than chance, and the table."""

import csv
import io
from typing import Any

import pytest

from patchwords.studies.cell import Cell
from patchwords.studies.outcome import Outcome
from patchwords.studies.results import Measure, Results, Row, alike, apart, grown, told
from patchwords.training.recipe import Recipe


def measure(*values: float, judged: int = 1000) -> Measure:
    return Measure(values=values, judged=judged)


@pytest.fixture
def row(shades: Any) -> Any:
    """`row("ViT", 0, accuracy=0.5)`; without numbers it is lost."""
    data = shades(4, train=8)

    def make(model: str, seed: int = 0, *, stage: Any = "fine-tuning", lost: str = "", **numbers: float) -> Row:
        at = {"model": model, "share": 0.5}
        cell = Cell(stage=stage, at=at, seed=seed, recipe=Recipe(), data=data, called="x")
        return Row(cell=cell, outcome=Outcome(numbers=numbers, lost=lost))

    return make


def test_a_measure_is_the_mean_over_the_seeds_with_the_deviation_of_a_sample() -> None:
    three = measure(0.5, 0.6, 0.7)
    assert three.mean == pytest.approx(0.6)
    assert three.deviation == pytest.approx(0.1)
    assert str(three) == "60.0 ± 10.0\N{NO-BREAK SPACE}%"


def test_of_one_seed_nobody_knows_the_deviation() -> None:
    assert measure(0.5).deviation == 0.0
    assert str(measure(0.5)) == "50.0\N{NO-BREAK SPACE}%"


def test_the_error_is_that_of_the_seeds_or_of_so_many_pictures() -> None:
    assert measure(0.5, 0.7, judged=10**6).error == pytest.approx(0.1)  # 0.1414 over the root of 2
    assert measure(0.5, judged=100).error == pytest.approx(0.05)
    assert measure(0.5, 0.5, 0.5, 0.5, judged=100).error == pytest.approx(0.025)
    assert measure(0.5, judged=0).error == pytest.approx(0.5)


def test_no_share_is_certain_however_few_pictures_judge() -> None:
    assert measure(1.0, 1.0, judged=1).error > 0.3
    assert apart(measure(1.0, judged=1), measure(0.0, judged=1)) == 0
    assert alike(measure(1.0, 1.0, judged=5), measure(1.0, 1.0, judged=5)) is None


def test_of_one_seed_two_points_of_deviation_are_assumed() -> None:
    assert measure(0.5, judged=10**6).error == pytest.approx(0.02)
    assert measure(0.5, 0.5, judged=10**6).error < 0.001


@pytest.mark.parametrize(
    ("one", "other", "answer"),
    [
        (measure(0.9, 0.9, judged=10**5), measure(0.905, 0.905, judged=10**5), True),
        (measure(0.9, 0.9, judged=10**5), measure(0.8, 0.8, judged=10**5), False),
        (measure(0.9, 0.9, judged=100), measure(0.9, 0.9, judged=100), None),  # no difference, and no certainty
        (measure(0.9), measure(0.9), None),
    ],
)
def test_two_are_alike_only_where_that_is_sure(one: Measure, other: Measure, answer: bool | None) -> None:
    assert alike(one, other) is answer
    assert alike(other, one) is answer


@pytest.mark.parametrize(
    ("one", "other", "order"),
    [
        (measure(0.9), measure(0.5), 1),
        (measure(0.5), measure(0.9), -1),
        (measure(0.5), measure(0.5), 0),
        (measure(0.52), measure(0.5), 0),  # a standard error of 0.022 between them
        (measure(0.56), measure(0.5), 1),
        (measure(0.56, judged=100), measure(0.5, judged=100), 0),
        (measure(0.2, 0.9), measure(0.1, 0.5), 0),  # the seeds lie further apart than the means
        (measure(1.0), measure(1.0), 0),
        (measure(1.0, 1.0, judged=10**4), measure(0.99, 0.99, judged=10**4), 1),
    ],
)
def test_two_are_apart_from_two_standard_errors_on(one: Measure, other: Measure, order: int) -> None:
    assert apart(one, other) == order
    assert apart(other, one) == -order


@pytest.mark.parametrize(
    ("before", "after", "sign"),
    [
        ((measure(0.5), measure(0.7)), (measure(0.9), measure(0.8)), 1),
        ((measure(0.9), measure(0.8)), (measure(0.5), measure(0.7)), -1),
        ((measure(0.5), measure(0.5)), (measure(0.9), measure(0.9)), 0),
        ((measure(0.5), measure(0.5)), (measure(0.56), measure(0.5)), 0),  # apart, but not with four errors
    ],
)
def test_a_lead_grew_or_fell_or_nobody_can_tell(
    before: tuple[Measure, Measure], after: tuple[Measure, Measure], sign: int
) -> None:
    assert grown(before, after) == sign
    assert grown(after, before) == -sign


def test_a_comparison_is_an_answer() -> None:
    assert [told(sign) for sign in (1, -1, 0)] == [True, False, None]


def test_rows_are_found_by_their_stage_and_by_what_was_varied(row: Any) -> None:
    results = Results(rows=[row("ViT"), row("ViT", 1), row("ResNet"), row("ViT", stage="pre-training")])
    assert len(results.where().rows) == 4
    assert len(results.where(model="ViT").rows) == 3
    assert [found.cell.seed for found in results.where(model="ViT", stage="fine-tuning").rows] == [0, 1]
    assert results.where(model="ViT", rate=0.1).rows == []
    assert results.where(model="BERT").rows == []
    assert results.seeds() == [0, 1]


def test_a_measure_is_over_the_seeds_that_came_to_an_end(row: Any) -> None:
    results = Results(
        rows=[
            row("ViT", 0, accuracy=0.5, judged=70),
            row("ViT", 1, lost="infinite"),
            row("ViT", 2, accuracy=0.7, judged=70),
            row("ViT", 0, stage="pre-training", few_shot=0.1, few_shot_judged=30, loss=2.0),
            row("ResNet", 0, lost="infinite"),
        ]
    )
    assert results.measure("accuracy", model="ViT") == measure(0.5, 0.7, judged=70)
    assert results.measure("few_shot", model="ViT") == measure(0.1, judged=30)
    assert results.measure("accuracy", model="ResNet") is None
    assert results.measure("accuracy", model="BERT") is None


def test_costs_have_a_mean(row: Any) -> None:
    results = Results(rows=[row("ViT", 0, exaflops=1.0), row("ViT", 1, exaflops=2.0), row("ResNet", lost="infinite")])
    assert results.mean("exaflops", model="ViT") == 1.5
    assert results.mean("exaflops", model="ResNet") is None


def test_a_group_is_the_rows_that_differ_by_their_seed_alone(row: Any) -> None:
    rows = [row("ViT", 0), row("ResNet", 0), row("ViT", 1), row("ViT", 0, stage="pre-training")]
    groups = Results(rows=rows).groups()
    assert [(at["stage"], at["model"], found.seeds()) for at, found in groups] == [
        ("fine-tuning", "ViT", [0, 1]),
        ("fine-tuning", "ResNet", [0]),
        ("pre-training", "ViT", [0]),
    ]


def read(results: Results) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(results.csv())))


def test_the_table_has_a_line_for_each_cell_and_a_column_for_every_key(row: Any) -> None:
    results = Results(rows=[row("ViT", 1, accuracy=0.5), row("ResNet", lost="loss, inf"), row("R", few_shot=1e-7)])
    assert results.csv().splitlines()[0] == "stage,model,share,seed,accuracy,lost,few_shot"
    first, second, third = read(results)
    assert (first["model"], first["seed"], first["accuracy"], first["lost"]) == ("ViT", "1", "0.5", "")
    assert (second["accuracy"], second["lost"]) == ("", "loss, inf")
    assert float(third["few_shot"]) == 1e-7


def test_numbers_of_the_table_are_exact(row: Any) -> None:
    third = 1 / 3
    (line,) = read(Results(rows=[row("ViT", accuracy=third, loss=-0.5)]))
    assert float(line["accuracy"]) == third
    assert line["loss"] == "-0.5"  # a number is no formula


@pytest.mark.parametrize("name", ["=1+1", "+x", "-x", "@sum", "\uff1d1"])
def test_names_that_a_spreadsheet_would_calculate_are_marked(row: Any, name: str) -> None:
    (line,) = read(Results(rows=[row(name, accuracy=0.5)]))
    assert line["model"] == f"'{name}"


@pytest.mark.parametrize("name", ['say "cheese"', "a,b", "a\nb", "\u56fe\u50cf"])
def test_other_names_come_back_as_they_were(row: Any, name: str) -> None:
    (line,) = read(Results(rows=[row(name, accuracy=0.5)]))
    assert line["model"] == name


def test_without_rows_the_table_is_empty() -> None:
    assert read(Results(rows=[])) == []


def test_pictures_that_were_seen_are_those_that_were_counted(row: Any) -> None:
    assert row("ViT", seen=640.0).seen == 640
    assert row("ViT", lost="infinite").seen == 0
