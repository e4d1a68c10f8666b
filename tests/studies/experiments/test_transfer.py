"""Section 4.2: the head alone, all of it, and nothing learned before."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from patchwords.errors import UsageError
from patchwords.pages.both import Both
from patchwords.studies.cell import Cell
from patchwords.studies.experiments.transfer import FROZEN, FULL, SCRATCH, Transfer
from patchwords.studies.wording import NOTHING, OTHER, SAME, UNCLEAR

Scores = Callable[[Cell], Mapping[str, float] | None]


def made_up(frozen: float | None, full: float | None, scratch: float | None) -> Scores:
    """Accuracies on the target's pictures."""

    def score(cell: Cell) -> Mapping[str, float] | None:
        found = {FROZEN: frozen, FULL: full, SCRATCH: scratch, None: 0.99}[cell.at.get("trained")]
        return None if found is None else {"accuracy": found}

    return score


def test_what_is_trained_is_all_that_differs(
    plan: Callable[..., Any], grid: str, differ: Callable[..., set[str]]
) -> None:
    made = plan("transfer", grid)
    learned, frozen, full, scratch = made.cells()
    assert [cell.stage for cell in made.cells()] == ["pre-training", "fine-tuning", "fine-tuning", "from scratch"]
    assert [cell.at.get("trained") for cell in made.cells()] == [None, FROZEN, FULL, SCRATCH]
    assert learned.data is made.ground.first
    assert all(cell.data is made.ground.target for cell in (frozen, full, scratch))
    assert frozen.after is full.after is learned
    assert scratch.after is None
    assert differ([learned, scratch]) == set()
    assert differ([frozen, full]) == {"freeze", "optimizer.lr"}
    assert (frozen.recipe.freeze, full.recipe.freeze) == ("backbone", "")
    assert len(made.cells(0, 1)) == 8


def test_weights_are_asked_about_in_place_of_a_pre_training(
    plan: Callable[..., Any], grid: str, differ: Callable[..., set[str]]
) -> None:
    made = plan("transfer", grid, "flowers.safetensors")
    frozen, full, scratch = made.cells()
    assert [cell.at["trained"] for cell in made.cells()] == [FROZEN, FULL, SCRATCH]
    assert differ([frozen, full]) == {"freeze", "optimizer.lr"}
    for cell in (frozen, full):
        assert (cell.recipe.weights, cell.recipe.model) == ("flowers.safetensors", "")
        assert cell.after is None
        assert cell.config is None  # the file says that
        assert cell.stage == "fine-tuning"
    assert not scratch.recipe.weights
    assert scratch.recipe == plan("transfer", grid).cells()[-1].recipe


@pytest.mark.parametrize("table", ["head", "scratch"])
@pytest.mark.parametrize("key", ["seed", "weights", "model", "evaluate", "best", "patience"])
def test_what_a_study_sets_is_not_for_its_tables_to_say(table: str, key: str) -> None:
    with pytest.raises(UsageError, match=f"{key} = 3 is not for a grid to say"):
        Transfer(model="ViT", **{table: {key: 3}})


def test_a_point_for_each_way_that_came_to_an_end(plan: Callable[..., Any], grid: str) -> None:
    made = plan("transfer", grid)
    (panel,) = made.experiment.panels(made.results(made_up(0.6, 0.7, 0.5), 0))
    assert panel.scale == "names"
    (line,) = panel.lines
    assert line.name == made.experiment.model
    assert {point.x: point.measure.mean for point in line.points} == {FROZEN: 0.6, FULL: 0.7, SCRATCH: 0.5}
    (panel,) = made.experiment.panels(made.results(made_up(0.6, None, 0.5)))
    assert [point.x for point in panel.lines[0].points] == [FROZEN, SCRATCH]


@pytest.mark.parametrize("weights", ["", "flowers.safetensors"])
@pytest.mark.parametrize(("full", "scratch", "said"), [(0.9, 0.5, SAME), (0.5, 0.9, OTHER), (0.5, 0.51, UNCLEAR)])
def test_what_learned_before_is_ahead_in_the_paper(
    plan: Callable[..., Any], verdict: Callable[..., Both], weights: str, full: float, scratch: float, said: Both
) -> None:
    made = plan("transfer", "digits", weights)
    finding = made.experiment.finding(made.results(made_up(0.62, full, scratch)))
    assert verdict(finding) == said
    for words in finding.here:
        assert all(f"{100 * share:.1f}" in words for share in (0.62, full, scratch))


@pytest.mark.parametrize("found", [(None, 0.5, 0.5), (0.5, None, 0.5), (0.5, 0.5, None), (None, None, None)])
def test_nothing_is_found_without_all_three(
    plan: Callable[..., Any], verdict: Callable[..., Both], found: tuple[float | None, ...]
) -> None:
    made = plan("transfer")
    finding = made.experiment.finding(made.results(made_up(*found)))
    assert finding.here == NOTHING
    assert verdict(finding) == UNCLEAR
