"""report.html of a study: words in two languages, names as names, and nothing from elsewhere."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from html import unescape
from typing import Any

import pytest

from patchwords.pages.both import Both
from patchwords.studies.catalogue import EXPERIMENTS
from patchwords.studies.cell import Cell
from patchwords.studies.experiment import Experiment, Finding
from patchwords.studies.page import LOST, Page
from patchwords.studies.results import Results, Row

EVIL = "<script>alert('x')</script> & \"co\" \u202e"
PICTURE = b"\x89PNG\r\n\x1a\n" + bytes(16)  # as much of it as a page looks at
TOLD = {"pictures": "shades", "device": "cpu", "command": "patchwords study head shades"}
NUMBERS = {"accuracy": 0.8125, "few_shot": 0.4375, "exaflops": 2.5e-6, "steps": 70, "seen": 4480, "parameters": 12345}


def written(
    made: tuple[Experiment, Results],
    told: Mapping[str, str] = TOLD,
    grid: str = "recipe = 'digits'",
    finding: Finding | None = None,
) -> str:
    experiment, results = made
    said = finding or experiment.finding(results)
    return Page(experiment=experiment, results=results, finding=said, figure=PICTURE, told=told, grid=grid).text()


@pytest.fixture
def made(made_up_results: Any) -> Any:
    """`made("head")` is a study for digits, whose cells all came to the same numbers unless `score` says otherwise."""

    def make(study: str, score: Any = lambda _: NUMBERS, seeds: Sequence[int] = (0,)) -> tuple[Experiment, Results]:
        return made_up_results(study, score, seeds)

    return make


def table(page: str) -> list[list[str]]:
    """The words of the table's lines, its head first."""
    (found,) = re.findall("<table.*?</table>", page, re.DOTALL)
    lines = re.findall("<tr>.*?</tr>", found, re.DOTALL)
    return [[unescape(word) for word in re.findall("<t[hd][^>]*>(.*?)</t[hd]>", line, re.DOTALL)] for line in lines]


@pytest.mark.parametrize("study", EXPERIMENTS)
def test_every_study_is_told_in_both_languages(study: str, made: Any) -> None:
    experiment, results = made(study)
    page = unescape(written((experiment, results)))
    finding = experiment.finding(results)
    for words in (experiment.question, *finding):
        assert words.english in page
        assert words.chinese in page
    assert f"<b>{experiment.title.chinese}</b>" in page
    assert page.count('lang="zh-CN"') == 4  # the question, both sentences, and how sure they are


@pytest.mark.parametrize("study", EXPERIMENTS)
def test_the_page_needs_no_network(study: str, made: Any) -> None:
    page = written(made(study))
    assert "http:" not in page
    assert "https:" not in page
    assert all(address.startswith("data:image/png;base64,") for address in re.findall('src="([^"]*)', page))
    assert all(address.startswith("#") for address in re.findall('href="([^"]*)', page))
    assert "<script" not in page
    assert "default-src &#x27;none&#x27;" in page


def test_the_table_has_a_line_for_what_differs_by_its_seed_alone(made: Any) -> None:
    def score(cell: Cell) -> Mapping[str, float]:
        return {**NUMBERS, "accuracy": 0.5 + 0.2 * cell.seed}

    page = written(made("transfer", score, (0, 1)))
    head, *lines = table(page)
    assert head == [
        "",
        "model",
        "trained",
        "accuracy",
        "few-shot accuracy",
        "pictures",
        "steps",
        "parameters",
        "compute",
    ]
    assert [line[:3] for line in lines] == [
        ["pre-training", "ViT", ""],
        ["fine-tuning", "ViT", "head alone"],
        ["fine-tuning", "ViT", "all of it"],
        ["from scratch", "ViT", "from scratch"],
    ]
    for line in lines:
        assert line[3:5] == ["60.0 ± 14.1\N{NO-BREAK SPACE}%", "43.8 ± 0.0\N{NO-BREAK SPACE}%"]
        assert line[6:] == ["70", "12,345", "2.5 TFLOPs"]
    assert "2 seeds" in page


@pytest.mark.parametrize("study", EXPERIMENTS)
def test_what_was_lost_is_said_where_its_score_would_stand(study: str, made: Any) -> None:
    _, *lines = table(written(made(study, lambda _: None)))
    assert len(lines) == len(made(study)[1].rows)
    axes = len(lines[0]) - 6
    assert all(line[axes : axes + 2] == [LOST, ""] for line in lines)
    assert all(line[axes + 2 :] == [""] * 4 for line in lines)


def test_seeds_that_were_lost_are_told_beside_those_that_were_not(made: Any) -> None:
    page = written(made("transfer", lambda cell: None if cell.seed else NUMBERS, (0, 1)))
    assert LOST not in page
    assert table(page)[1][3] == "81.2\N{NO-BREAK SPACE}% (1 of 2 seeds lost)"


def test_the_top_counts_trainings_pictures_and_operations(made: Any) -> None:
    experiment, results = made("transfer")
    count = len(results.rows)
    page = written((experiment, results))
    for words in (f"<dd>{count}</dd>", f"<dd>{4480 * count:,}</dd>", "<dd>10 TFLOPs</dd>", "1 seed"):
        assert words in page
    assert "<dd>0</dd>" in written((experiment, Results(rows=[])))


@pytest.mark.parametrize(
    ("exaflops", "said"),
    [(1065.5, "4,262 exaFLOPs"), (0.2499, "1,000 PFLOPs"), (0.24, "960 PFLOPs"), (0.0, "0 MFLOPs")],
)
def test_much_compute_is_written_without_powers(made: Any, exaflops: float, said: str) -> None:
    assert f"<dd>{said}</dd>" in written(made("transfer", lambda _: NUMBERS | {"exaflops": exaflops}))


def test_how_it_was_made_is_on_the_page(made: Any) -> None:
    page = written(made("head"), grid="[models]\nViT = 1")
    for key, words in TOLD.items():
        assert f"<dt>{key}</dt><dd><bdi>{words}</bdi></dd>" in page
    assert "<pre>[models]\nViT = 1</pre>" in page


def test_a_long_command_is_told_whole(made: Any) -> None:
    command = f"patchwords study head {'shades/' * 30} --set rates=[0.1,0.2]"
    assert f"<bdi>{command}</bdi>" in written(made("head"), TOLD | {"command": command})


def test_no_name_can_write_the_page(made: Any) -> None:
    experiment, results = made("data-size")
    rows = [
        Row(cell=replace(row.cell, at={**row.cell.at, "model": EVIL, "share": EVIL}), outcome=row.outcome)
        for row in results.rows
    ]
    told = dict.fromkeys((*TOLD, "target", "weights"), EVIL)
    said = Both(EVIL, EVIL)
    page = written((experiment, Results(rows=rows)), told, grid=EVIL, finding=Finding(said, said))
    assert "<script" not in page
    assert "\u202e" not in page
    assert "&lt;script&gt;" in page
