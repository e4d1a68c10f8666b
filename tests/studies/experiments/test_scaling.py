"""Figure 5: models of several sizes learn for several times as long, and what that cost is counted."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from patchwords.pages.both import Both
from patchwords.studies.cell import Cell
from patchwords.studies.wording import NOTHING, OTHER, SAME, UNCLEAR

Scores = Callable[[Cell], Mapping[str, float] | None]
CHEAPEST = 1e-6  # exaFLOPs


def made_up(made: Any, **dearer: float) -> Scores:
    """Accuracies that grow with the logarithm of the compute; some families need so many times more for the same."""
    places = {model: (name, at) for name, models in made.experiment.families.items() for at, model in enumerate(models)}

    def score(cell: Cell) -> Mapping[str, float] | None:
        family, place = places[str(cell.at["model"])]
        times = (1 + place) * (1 + made.experiment.durations.index(cell.at["duration"]))
        accuracy = 0.6 + 0.05 * math.log2(times / dearer.get(family, 1.0))
        return {"accuracy": accuracy, "few_shot": accuracy / 2, "exaflops": CHEAPEST * times}

    return score


def test_every_model_learns_for_every_duration(
    plan: Callable[..., Any], grid: str, differ: Callable[..., set[str]]
) -> None:
    made = plan("scaling", grid)
    models = [model for models in made.experiment.families.values() for model in models]
    durations = made.experiment.durations
    assert len(made.cells(0, 1)) == 2 * 2 * len(models) * len(durations)
    for model in models:
        learned, tuned = (made.cells(model=model, stage=stage) for stage in ("pre-training", "fine-tuning"))
        assert [cell.at for cell in learned] == [{"model": model, "duration": duration} for duration in durations]
        assert [cell.recipe.duration for cell in learned] == list(durations)
        assert differ(learned) == {"duration"}
        assert differ(tuned) == set()
        assert [cell.after for cell in tuned] == learned
        assert all(cell.data is made.ground.first for cell in learned)
        assert all(cell.data is made.ground.target for cell in tuned)


def test_models_differ_by_nothing_but_themselves(
    plan: Callable[..., Any], grid: str, differ: Callable[..., set[str]]
) -> None:
    made = plan("scaling", grid)
    between = differ(made.cells(stage="pre-training", duration=made.experiment.durations[0]))
    assert {key.partition(".")[0] for key in between} <= {"model", "image", "parts"}


def test_a_line_for_each_family_has_its_points_from_cheap_to_dear_in_a_unit_that_fits(
    plan: Callable[..., Any], grid: str
) -> None:
    made = plan("scaling", grid)
    families = made.experiment.families
    panels = made.experiment.panels(made.results(made_up(made), 0, 1))
    for panel, part in zip(panels, (1, 0.5), strict=True):
        assert panel.scale == "compute"
        assert panel.across == "TFLOPs of pre-training"
        assert [line.name for line in panel.lines] == list(families)
        for line in panel.lines:
            costs = [point.x for point in line.points]
            assert costs == sorted(costs)
            assert costs[0] == pytest.approx(1e6 * CHEAPEST)
            assert len(costs) == len(families[line.name]) * len(made.experiment.durations)
            assert line.points[0].measure.values == pytest.approx((0.6 * part, 0.6 * part))


def test_what_has_no_result_is_left_out(plan: Callable[..., Any]) -> None:
    made = plan("scaling")
    score = made_up(made)
    results = made.results(lambda cell: None if cell.at["model"] == "ViT" else score(cell))
    for panel in made.experiment.panels(results):
        assert {line.name: len(line.points) for line in panel.lines} == {"ViT": 4, "hybrid": 2, "ResNet": 4}


@pytest.mark.parametrize(("times", "said"), [(3.0, SAME), (1.0, UNCLEAR), (1.02, UNCLEAR), (1 / 3, OTHER)])
def test_what_the_last_family_needs_for_the_accuracy_of_the_first(
    plan: Callable[..., Any], verdict: Callable[..., Both], grid: str, times: float, said: Both
) -> None:
    made = plan("scaling", grid)
    names = list(made.experiment.families)
    finding = made.experiment.finding(made.results(made_up(made, **{names[-1]: times})))
    assert verdict(finding) == said
    assert finding.here.english.count("TFLOPs") == finding.here.chinese.count("TFLOPs") == 2
    for words in finding.here:
        assert names[0] in words
        assert names[-1] in words
        assert "hybrid" not in words


def test_dearer_models_that_are_worse_change_nothing(plan: Callable[..., Any]) -> None:
    made = plan("scaling")
    score = made_up(made, ResNet=3.0)

    def worse(cell: Cell) -> Mapping[str, float] | None:
        dear = cell.at == {"model": "ViT large", "duration": made.experiment.durations[-1]}
        return {"accuracy": 0.2, "few_shot": 0.1, "exaflops": 1.0} if dear else score(cell)

    assert made.experiment.finding(made.results(worse)) == made.experiment.finding(made.results(score))


@pytest.mark.parametrize("family", ["ViT", "ResNet"])
def test_a_family_without_results_is_told_of_no_verdict(
    plan: Callable[..., Any], verdict: Callable[..., Both], family: str
) -> None:
    made = plan("scaling")
    score = made_up(made)
    finding = made.experiment.finding(
        made.results(lambda cell: None if cell.at["model"] in made.experiment.families[family] else score(cell))
    )
    assert finding.here == NOTHING
    assert verdict(finding) == UNCLEAR
