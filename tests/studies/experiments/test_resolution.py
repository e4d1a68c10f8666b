"""Section 3.2: one model, fine-tuned three times, and what the positions are worth at another size."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from patchwords.pages.both import Both
from patchwords.studies.cell import Cell
from patchwords.studies.experiments.resolution import ANEW, RESAMPLED
from patchwords.studies.experiments.resolution import SAME as SIZE
from patchwords.studies.wording import NOTHING, OTHER, SAME, UNCLEAR

Scores = Callable[[Cell], Mapping[str, float] | None]


def made_up(same: float | None, resampled: float | None, anew: float | None) -> Scores:
    """Accuracies after fine-tuning."""

    def score(cell: Cell) -> Mapping[str, float] | None:
        if cell.stage == "pre-training":
            return {"accuracy": 0.99}
        found = {SIZE: same, RESAMPLED: resampled, ANEW: anew}[str(cell.at["size"])]
        return None if found is None else {"accuracy": found}

    return score


def test_the_size_and_then_the_positions_are_all_that_differs(
    plan: Callable[..., Any], grid: str, differ: Callable[..., set[str]]
) -> None:
    made = plan("resolution", grid)
    learned, same, resampled, anew = made.cells()
    assert learned.at == {"model": made.experiment.model}
    assert [cell.at["size"] for cell in (same, resampled, anew)] == [SIZE, RESAMPLED, ANEW]
    assert differ([same, resampled]) == {"image"}
    assert differ([resampled, anew]) == {"positions"}
    assert all(cell.after is learned and cell.data is made.ground.target for cell in (same, resampled, anew))
    assert (resampled.recipe.positions, anew.recipe.positions) == ("paper", "anew")
    assert len(made.cells(0, 1)) == 8


def test_pictures_are_larger_than_those_learned_from(plan: Callable[..., Any], grid: str) -> None:
    made = plan("resolution", grid)
    learned, same, resampled, anew = (cell.config.image for cell in made.cells())
    larger = made.experiment.larger
    assert same == learned < resampled == anew == (larger, larger)


def test_a_point_for_each_way_that_came_to_an_end(plan: Callable[..., Any], grid: str) -> None:
    made = plan("resolution", grid)
    (panel,) = made.experiment.panels(made.results(made_up(0.5, 0.6, 0.4), 0, 1))
    assert panel.scale == "names"
    (line,) = panel.lines
    assert {point.x: point.measure.values for point in line.points} == {
        SIZE: (0.5, 0.5),
        RESAMPLED: (0.6, 0.6),
        ANEW: (0.4, 0.4),
    }
    (panel,) = made.experiment.panels(made.results(made_up(0.5, None, 0.4)))
    assert [point.x for point in panel.lines[0].points] == [SIZE, ANEW]


@pytest.mark.parametrize(
    ("same", "resampled", "anew", "said"),
    [
        (0.5, 0.6, 0.4, SAME),
        (0.595, 0.6, 0.4, UNCLEAR),
        (0.7, 0.6, 0.4, OTHER),  # larger is worse
        (0.5, 0.6, 0.7, SAME),  # whatever positions are worth
        (0.6, 0.6, 0.6, UNCLEAR),
    ],
)
def test_larger_pictures_with_resampled_positions_are_best_in_the_paper(
    plan: Callable[..., Any], verdict: Callable[..., Both], same: float, resampled: float, anew: float, said: Both
) -> None:
    made = plan("resolution")
    finding = made.experiment.finding(made.results(made_up(same, resampled, anew)))
    assert verdict(finding) == said
    for words in finding.here:
        assert all(f"{100 * share:.1f}" in words for share in (same, resampled, anew))
        assert str(made.experiment.larger) in words


@pytest.mark.parametrize("found", [(None, 0.5, 0.5), (0.5, None, 0.5), (0.5, 0.5, None), (None, None, None)])
def test_nothing_is_found_without_all_three(
    plan: Callable[..., Any], verdict: Callable[..., Both], found: tuple[float | None, ...]
) -> None:
    made = plan("resolution")
    finding = made.experiment.finding(made.results(made_up(*found)))
    assert finding.here == NOTHING
    assert verdict(finding) == UNCLEAR
