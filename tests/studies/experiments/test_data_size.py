"""Figures 3 and 4: shares of the pictures, and nothing else, come between the cells of a model."""

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from patchwords.data.sources.source import Subset
from patchwords.pages.both import Both
from patchwords.studies.cell import Cell
from patchwords.studies.wording import NOTHING, OTHER, SAME, UNCLEAR

Scores = Callable[[Cell], Mapping[str, float] | None]


def made_up(**accuracy: tuple[float, float]) -> Scores:
    """Accuracies of a model with the fewest pictures and with all, and none in between."""

    def score(cell: Cell) -> Mapping[str, float] | None:
        few, many = accuracy[str(cell.at["model"])]
        found = {0.05: few, 1.0: many}.get(float(cell.at["share"]))
        return None if found is None else {"accuracy": found, "few_shot": found / 2}

    return score


def test_every_model_learns_from_every_share_and_is_fine_tuned_to_all_of_the_target(
    plan: Callable[..., Any], grid: str, differ: Callable[..., set[str]]
) -> None:
    made = plan("data-size", grid)
    models, shares = made.experiment.models, made.experiment.shares
    assert len(made.cells(0, 1)) == 2 * 2 * len(models) * len(shares)
    for model in models:
        learned, tuned = (made.cells(model=model, stage=stage) for stage in ("pre-training", "fine-tuning"))
        assert [cell.at for cell in learned] == [{"model": model, "share": share} for share in shares]
        assert differ(learned) == differ(tuned) == set()
        assert [cell.after for cell in tuned] == learned
        assert all(cell.data is made.ground.target for cell in tuned)
        assert all(cell.data.val is made.ground.first.val for cell in learned)


def test_a_share_is_of_the_pictures_learned_from_and_within_the_larger_ones(
    plan: Callable[..., Any], grid: str
) -> None:
    made = plan("data-size", grid)
    for model in made.experiment.models:
        sources = [cell.data.train for cell in made.cells(model=model, stage="pre-training")]
        assert [len(source) / len(made.ground.first.train) for source in sources] == list(made.experiment.shares)
        *shares, whole = sources
        assert whole is made.ground.first.train
        assert all(isinstance(share, Subset) for share in shares)
        assert all(np.isin(a.indices, b.indices).all() for a, b in pairwise(shares))


def test_models_differ_by_nothing_but_themselves(
    plan: Callable[..., Any], grid: str, differ: Callable[..., set[str]]
) -> None:
    made = plan("data-size", grid)
    between = differ(made.cells(stage="pre-training", share=1.0))
    assert {key.partition(".")[0] for key in between} <= {"model", "image", "parts"}
    between = differ(made.cells(stage="fine-tuning", share=1.0))
    assert {key.partition(".")[0] for key in between} <= {"image", "parts"}


def test_a_line_for_each_model_has_a_point_for_each_share_with_a_result(plan: Callable[..., Any], grid: str) -> None:
    made = plan("data-size", grid)
    first = made.experiment.models[0]

    def score(cell: Cell) -> Mapping[str, float] | None:
        lost = cell.at["model"] == first and cell.at["share"] == 0.1
        return None if lost else {"accuracy": 0.8, "few_shot": 0.4}

    for panel, height in zip(made.experiment.panels(made.results(score, 0, 1)), (0.8, 0.4), strict=True):
        assert panel.scale == "shares"
        assert tuple(line.name for line in panel.lines) == made.experiment.models
        for line in panel.lines:
            wanted = [share for share in made.experiment.shares if line.name != first or share != 0.1]
            assert [point.x for point in line.points] == wanted
            assert {point.measure.values for point in line.points} == {(height, height)}


@pytest.mark.parametrize(
    ("vit", "resnet", "said"),
    [
        ((0.5, 0.9), (0.7, 0.8), SAME),
        ((0.5, 0.75), (0.7, 0.85), SAME),  # behind, but by less
        ((0.8, 0.7), (0.7, 0.9), OTHER),
        ((0.6, 0.9), (0.5, 0.7), OTHER),  # ahead with few pictures already
        ((0.5, 0.6), (0.7, 0.805), UNCLEAR),
        ((0.6, 0.9), (0.6, 0.9), UNCLEAR),
    ],
)
def test_the_lead_of_the_first_model_over_the_last_grows_in_the_paper(
    plan: Callable[..., Any],
    verdict: Callable[..., Both],
    vit: tuple[float, float],
    resnet: tuple[float, float],
    said: Both,
) -> None:
    made = plan("data-size")
    finding = made.experiment.finding(made.results(made_up(ViT=vit, hybrid=(0.1, 0.1), ResNet=resnet)))
    assert verdict(finding) == said
    for words in finding.here:
        assert words.index("ViT") < words.index("ResNet")
        assert "hybrid" not in words
        assert all(f"{100 * share:.1f}" in words for share in (*vit, *resnet))
        assert "5 %" in words or "5%" in words


def test_without_an_end_of_the_share_nothing_is_found(plan: Callable[..., Any], verdict: Callable[..., Both]) -> None:
    made = plan("data-size")
    for lost in (0.05, 1.0):
        results = made.results(lambda cell, lost=lost: None if cell.at["share"] == lost else {"accuracy": 0.5})
        finding = made.experiment.finding(results)
        assert finding.here == NOTHING
        assert verdict(finding) == UNCLEAR


def test_no_result_leaves_lines_without_points(plan: Callable[..., Any], grid: str) -> None:
    made = plan("data-size", grid)
    panels = made.experiment.panels(made.results(lambda _: None))
    assert [line.points for panel in panels for line in panel.lines] == [[]] * 2 * len(made.experiment.models)
