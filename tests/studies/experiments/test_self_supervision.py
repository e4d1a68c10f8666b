"""Section 4.6: three starts, and from there on the same."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from patchwords.pages.both import Both
from patchwords.studies.cell import Cell
from patchwords.studies.experiments.self_supervision import LABELS, MASKED, SCRATCH
from patchwords.studies.wording import NOTHING, OTHER, SAME, UNCLEAR

Scores = Callable[[Cell], Mapping[str, float] | None]


def made_up(**starts: float | None) -> Scores:
    """Accuracies on the target's pictures by start; what learns from masked patches has none of its own."""

    def score(cell: Cell) -> Mapping[str, float] | None:
        found = starts[str(cell.at["start"]).partition(" ")[0]]
        if found is None:
            return None
        if cell.stage == "pre-training":
            return {"few_shot": found / 2} if cell.at["start"] == MASKED else {"few_shot": found / 2, "accuracy": 0.99}
        return {"accuracy": found}

    return score


def test_the_starts_are_the_only_difference(
    plan: Callable[..., Any], grid: str, differ: Callable[..., set[str]]
) -> None:
    made = plan("self-supervision", grid)
    cells = made.cells()
    assert [(cell.stage, cell.at["start"]) for cell in cells] == [
        ("from scratch", SCRATCH),
        ("pre-training", MASKED),
        ("fine-tuning", MASKED),
        ("pre-training", LABELS),
        ("fine-tuning", LABELS),
    ]
    scratch, masked, tuned_masked, labels, tuned_labels = cells
    assert (tuned_masked.after, tuned_labels.after, scratch.after) == (masked, labels, None)
    assert differ([scratch, labels]) == differ([tuned_masked, tuned_labels]) == set()
    assert "objective.kind" in differ([masked, labels])
    assert len(made.cells(0, 1)) == 2 * len(cells)


def test_what_learns_from_masked_patches_has_what_the_grid_says_of_it_besides(
    plan: Callable[..., Any], grid: str, differ: Callable[..., set[str]]
) -> None:
    made = plan("self-supervision", grid)
    (masked,), (labels,) = (made.cells(start=start, stage="pre-training") for start in (MASKED, LABELS))
    assert masked.recipe.objective.kind == "masked_patch"
    assert labels.recipe.objective.kind == "supervised"
    assert {key.partition(".")[0] for key in differ([masked, labels])} == set(made.ground.grid.mask)
    assert not masked.recipe.data.mix.mixup


def test_all_are_judged_after_the_same_share_of_the_target(plan: Callable[..., Any], grid: str) -> None:
    made = plan("self-supervision", grid)
    for cell in made.cells():
        if cell.stage == "pre-training":
            assert cell.data is made.ground.first
            assert cell.frozen is made.ground.target
        else:
            share = made.experiment.share * len(made.ground.target.train)
            assert len(cell.data.train) == pytest.approx(share)
            assert cell.data.val is made.ground.target.val
    pictures = {tuple(cell.data.train.indices) for cell in made.cells() if cell.stage != "pre-training"}
    assert len(pictures) == 1


def test_points_stand_over_the_starts_that_came_to_an_end(plan: Callable[..., Any], grid: str) -> None:
    made = plan("self-supervision", grid)
    tuned, few = made.experiment.panels(made.results(made_up(scratch=0.5, masked=0.6, labels=0.8), 0))
    assert (tuned.scale, few.scale) == ("names", "names")
    (line,) = tuned.lines
    assert {point.x: point.measure.mean for point in line.points} == {SCRATCH: 0.5, MASKED: 0.6, LABELS: 0.8}
    (line,) = few.lines
    assert {point.x: point.measure.mean for point in line.points} == {MASKED: 0.3, LABELS: 0.4}
    tuned, few = made.experiment.panels(made.results(made_up(scratch=0.5, masked=None, labels=0.8), 0))
    assert [point.x for point in tuned.lines[0].points] == [SCRATCH, LABELS]
    assert [point.x for point in few.lines[0].points] == [LABELS]


@pytest.mark.parametrize(
    ("scratch", "masked", "labels", "said"),
    [
        (0.5, 0.6, 0.7, SAME),
        (0.6, 0.5, 0.7, OTHER),  # worse than nothing
        (0.5, 0.7, 0.6, OTHER),  # better than with labels
        (0.5, 0.51, 0.4, OTHER),
        (0.5, 0.51, 0.7, UNCLEAR),
        (0.5, 0.7, 0.71, UNCLEAR),
    ],
)
def test_masked_patches_are_between_no_pre_training_and_labels_in_the_paper(
    plan: Callable[..., Any], verdict: Callable[..., Both], scratch: float, masked: float, labels: float, said: Both
) -> None:
    made = plan("self-supervision")
    finding = made.experiment.finding(made.results(made_up(scratch=scratch, masked=masked, labels=labels)))
    assert verdict(finding) == said
    for words in finding.here:
        assert all(f"{100 * share:.1f}" in words for share in (scratch, masked, labels))


@pytest.mark.parametrize("lost", ["scratch", "masked", "labels"])
def test_nothing_is_found_without_all_three(plan: Callable[..., Any], verdict: Callable[..., Both], lost: str) -> None:
    made = plan("self-supervision")
    results = made.results(made_up(**{"scratch": 0.5, "masked": 0.6, "labels": 0.7, lost: None}))
    finding = made.experiment.finding(results)
    assert finding.here == NOTHING
    assert verdict(finding) == UNCLEAR
