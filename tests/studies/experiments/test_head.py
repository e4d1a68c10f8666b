"""Appendix D.3: what the classifier sees and the rate are all that differs."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from patchwords.pages.both import Both
from patchwords.studies.cell import Cell
from patchwords.studies.experiments.head import CLASS, MEAN
from patchwords.studies.wording import NOTHING, OTHER, SAME, UNCLEAR

Scores = Callable[[Cell], Mapping[str, float] | None]


def made_up(token: Mapping[float, float], mean: Mapping[float, float]) -> Scores:
    """Accuracies by rate, lost at other rates."""

    def score(cell: Cell) -> Mapping[str, float] | None:
        found = {CLASS: token, MEAN: mean}[str(cell.at["pool"])].get(float(cell.at["rate"]))
        return None if found is None else {"accuracy": found, "few_shot": found / 2}

    return score


def test_each_way_learns_at_each_rate(plan: Callable[..., Any], grid: str, differ: Callable[..., set[str]]) -> None:
    made = plan("head", grid)
    rates, cells = made.experiment.rates, made.cells()
    assert [(cell.at["pool"], cell.at["rate"]) for cell in cells] == [(p, r) for p in (CLASS, MEAN) for r in rates]
    assert {(cell.stage, cell.at["model"]) for cell in cells} == {("pre-training", made.experiment.model)}
    assert [cell.recipe.optimizer.lr for cell in cells] == [*rates, *rates]
    assert differ(cells) == {"parts.special", "parts.pool.kind", "optimizer.lr"}
    for rate in rates:
        assert differ(made.cells(rate=rate)) == {"parts.special", "parts.pool.kind"}
    assert all(cell.data is made.ground.first and cell.after is None for cell in cells)
    assert len(made.cells(0, 1)) == 2 * len(cells)


def test_one_way_has_a_class_token_and_the_other_none(plan: Callable[..., Any], grid: str) -> None:
    made = plan("head", grid)
    shapes = {(cell.at["pool"], cell.config.pool.kind, cell.config.special) for cell in made.cells()}
    assert shapes == {(CLASS, "class", ("class",)), (MEAN, "mean", ())}


def test_a_line_for_each_way_has_the_rates_that_came_to_an_end(plan: Callable[..., Any], grid: str) -> None:
    made = plan("head", grid)
    first, second, *others = made.experiment.rates
    found = {first: 0.7, second: 0.8, **dict.fromkeys(others[:-1], 0.6)}  # lost at the highest
    for panel, part in zip(made.experiment.panels(made.results(made_up(found, {first: 0.5}))), (1, 0.5), strict=True):
        assert panel.scale == "rates"
        token, mean = panel.lines
        assert (token.name, mean.name) == (CLASS, MEAN)
        assert {point.x: point.measure.mean / part for point in token.points} == pytest.approx(found)
        assert [point.x for point in mean.points] == [first]


@pytest.mark.parametrize(
    ("token", "mean", "said"),
    [
        ({3e-3: 0.9, 1e-3: 0.5}, {3e-3: 0.3, 1e-3: 0.9}, SAME),
        ({3e-3: 0.5, 1e-3: 0.4}, {3e-3: 0.3, 1e-3: 0.514}, UNCLEAR),  # neither apart nor surely alike
        ({3e-3: 0.9, 1e-3: 0.5}, {3e-3: 0.3, 1e-3: 0.6}, OTHER),
        ({3e-3: 0.5, 1e-3: 0.4}, {3e-3: 0.3, 1e-3: 0.9}, OTHER),
    ],
)
def test_each_way_is_judged_at_its_best_rate(
    plan: Callable[..., Any],
    verdict: Callable[..., Both],
    token: Mapping[float, float],
    mean: Mapping[float, float],
    said: Both,
) -> None:
    made = plan("head")
    finding = made.experiment.finding(made.results(made_up(token, mean)))
    assert verdict(finding) == said
    for words in finding.here:
        assert "0.003" in words
        assert "0.001" in words
        assert "30.0" not in words


def test_a_way_without_results_is_told_of_no_verdict(plan: Callable[..., Any], verdict: Callable[..., Both]) -> None:
    made = plan("head")
    for token, mean in (({3e-3: 0.9}, {}), ({}, {3e-3: 0.9}), ({}, {})):
        finding = made.experiment.finding(made.results(made_up(token, mean)))
        assert finding.here == NOTHING
        assert verdict(finding) == UNCLEAR
