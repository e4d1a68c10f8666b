"""Table 7: the optimizer of the pre-training is all that differs."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from patchwords.pages.both import Both
from patchwords.studies.cell import Cell
from patchwords.studies.wording import NOTHING, OTHER, SAME, UNCLEAR

Scores = Callable[[Cell], Mapping[str, float] | None]


def made_up(adam: float, sgd: float, lost: Callable[[Cell], bool] = lambda _: False) -> Scores:
    """Accuracies after fine-tuning; before it SGD is ahead, which does not count."""

    def score(cell: Cell) -> Mapping[str, float] | None:
        tuned = {"Adam": adam, "SGD": sgd}[str(cell.at["optimizer"])]
        accuracy = tuned if cell.stage == "fine-tuning" else {"Adam": 0.1, "SGD": 0.99}[str(cell.at["optimizer"])]
        return None if lost(cell) else {"accuracy": accuracy}

    return score


def test_each_model_is_pre_trained_with_both_and_fine_tuned_alike(
    plan: Callable[..., Any], grid: str, differ: Callable[..., set[str]]
) -> None:
    made = plan("optimizer", grid)
    models = made.experiment.models
    assert len(made.cells(0, 1)) == 2 * 2 * 2 * len(models)
    for model in models:
        learned, tuned = (made.cells(model=model, stage=stage) for stage in ("pre-training", "fine-tuning"))
        assert [cell.at["optimizer"] for cell in learned] == ["Adam", "SGD"]
        assert [cell.recipe.optimizer.kind for cell in learned] == ["adam", "sgd"]
        assert {key.partition(".")[0] for key in differ(learned)} == {"optimizer"}
        assert differ(tuned) == set()
        assert [cell.after for cell in tuned] == learned
        assert all(cell.data is made.ground.first for cell in learned)
        assert all(cell.data is made.ground.target for cell in tuned)


def test_each_optimizer_has_what_the_grid_says_of_it_and_nothing_of_another(
    plan: Callable[..., Any], grid: str
) -> None:
    made = plan("optimizer", grid)
    for cell in made.cells(stage="pre-training"):
        told = {"Adam": made.experiment.adam, "SGD": made.experiment.sgd}[cell.at["optimizer"]]
        optimizer = cell.recipe.optimizer
        assert optimizer == type(optimizer)(**{key: told[key] for key in told if key != "kind"})


def test_the_models_are_resnets(plan: Callable[..., Any], grid: str) -> None:
    assert {cell.config.kind for cell in plan("optimizer", grid).cells()} == {"resnet"}


def test_a_line_for_each_optimizer_has_a_point_for_each_model(plan: Callable[..., Any], grid: str) -> None:
    made = plan("optimizer", grid)
    first = made.experiment.models[0]
    results = made.results(made_up(0.8, 0.7, lambda cell: cell.at == {"model": first, "optimizer": "SGD"}), 0)
    for panel, (adam, sgd) in zip(made.experiment.panels(results), ((0.8, 0.7), (0.1, 0.99)), strict=True):
        assert panel.scale == "names"
        lines = {line.name: {point.x: point.measure.mean for point in line.points} for line in panel.lines}
        assert lines == {
            "Adam": dict.fromkeys(made.experiment.models, adam),
            "SGD": dict.fromkeys(made.experiment.models[1:], sgd),
        }


@pytest.mark.parametrize(("adam", "sgd", "said"), [(0.9, 0.8, SAME), (0.8, 0.9, OTHER), (0.8, 0.81, UNCLEAR)])
def test_adam_is_ahead_in_the_paper(
    plan: Callable[..., Any], verdict: Callable[..., Both], adam: float, sgd: float, said: Both
) -> None:
    made = plan("optimizer")
    finding = made.experiment.finding(made.results(made_up(adam, sgd)))
    assert verdict(finding) == said
    for words in finding.here:
        assert words.index("Adam") < words.index("SGD")
        assert f"{100 * adam:.1f}" in words
        assert f"{100 * sgd:.1f}" in words


def test_what_is_compared_is_the_mean_over_the_models_of_every_seed(plan: Callable[..., Any]) -> None:
    made = plan("optimizer")
    values = {(0, "ResNet"): 0.9, (0, "ResNet small"): 0.7, (1, "ResNet"): 0.6, (1, "ResNet small"): 0.6}

    def score(cell: Cell) -> Mapping[str, float]:
        return {"accuracy": values[cell.seed, str(cell.at["model"])] - 0.2 * (cell.at["optimizer"] == "SGD")}

    here, _ = made.experiment.finding(made.results(score, 0, 1))
    for words in here:  # 0.8 and 0.6 with Adam
        assert "70.0 ± 14.1" in words
        assert "50.0 ± 14.1" in words


@pytest.mark.parametrize("lost", ["Adam", "SGD"])
def test_nothing_is_found_without_every_model(
    plan: Callable[..., Any], verdict: Callable[..., Both], lost: str
) -> None:
    made = plan("optimizer")
    for model in made.experiment.models:
        at = {"model": model, "optimizer": lost}
        finding = made.experiment.finding(made.results(made_up(0.9, 0.8, lambda cell, at=at: cell.at == at)))
        assert finding.here == NOTHING
        assert verdict(finding) == UNCLEAR
