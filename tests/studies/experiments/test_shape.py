"""Appendix D.2: one number of a base model is changed at a time."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from patchwords.pages.both import Both
from patchwords.studies.cell import Cell
from patchwords.studies.experiments.shape import BASE
from patchwords.studies.wording import NOTHING, OTHER, SAME, UNCLEAR

Scores = Callable[[Cell], Mapping[str, float] | None]
CHEAP = 1e-6  # exaFLOPs of the base


def made_up(base: float | None, **dearest: float) -> Scores:
    """Accuracies of the base, of what makes it dearer, and of what makes it cheaper, which is worth nothing."""

    def score(cell: Cell) -> Mapping[str, float] | None:
        what, value = str(cell.at["changed"]), cell.at["to"]
        if what == BASE:
            return None if base is None else {"accuracy": base, "few_shot": base / 2, "exaflops": CHEAP}
        if what not in dearest:
            return None
        values = {"depth": (2, 8), "width": (32, 128), "mlp": (64, 256), "patch": (4, 1)}[what]
        place = values.index(int(value))
        accuracy = (0.1, dearest[what])[place]
        return {"accuracy": accuracy, "few_shot": accuracy / 2, "exaflops": (0.5, 3.0)[place] * CHEAP}

    return score


def test_each_cell_differs_from_the_base_by_one_number(
    plan: Callable[..., Any], grid: str, differ: Callable[..., set[str]]
) -> None:
    made = plan("shape", grid)
    (base,) = made.cells(changed=BASE)
    assert base.stage == "pre-training"
    assert base.data is made.ground.first
    assert len(made.cells(0, 1)) == 2 * (1 + sum(map(len, made.experiment.varied.values())))
    for what, values in made.experiment.varied.items():
        cells = made.cells(changed=what)
        assert [cell.at["to"] for cell in cells] == list(values)
        for cell, value in zip(cells, values, strict=True):
            assert differ([base, cell]) == {f"parts.{what}"}
            assert cell.data is base.data
            found, before = getattr(cell.config, what), getattr(base.config, what)
            assert found == ((value, value) if what == "patch" else value)
            assert found != before


def test_some_of_each_number_make_the_model_dearer(plan: Callable[..., Any], grid: str) -> None:
    made = plan("shape", grid)
    (base,) = made.cells(changed=BASE)
    for what in ("depth", "width", "mlp"):
        assert max(made.experiment.varied[what]) > getattr(base.config, what)
    assert min(made.experiment.patch) < base.config.patch[0]


def test_a_line_for_each_number_goes_through_the_base_from_cheap_to_dear(plan: Callable[..., Any]) -> None:
    made = plan("shape")
    results = made.results(made_up(0.6, depth=0.8, width=0.7, mlp=0.65))
    for panel, part in zip(made.experiment.panels(results), (1, 0.5), strict=True):
        assert panel.scale == "compute"
        assert panel.across == "TFLOPs of training"
        lines = {line.name: [(p.x, p.measure.mean / part) for p in line.points] for line in panel.lines}
        assert list(lines) == ["depth", "width", "mlp", "patch"]
        costs, accuracies = zip(*lines["depth"], strict=True)
        assert costs == pytest.approx((0.5, 1.0, 3.0))
        assert accuracies == pytest.approx((0.1, 0.6, 0.8))
        assert len(lines["patch"]) == 1  # nothing came of it, but the base was


def test_every_grid_has_its_lines(plan: Callable[..., Any], grid: str) -> None:
    made = plan("shape", grid)
    results = made.results(lambda _: {"accuracy": 0.5, "few_shot": 0.4})
    for panel in made.experiment.panels(results):
        assert [len(line.points) for line in panel.lines] == [1 + len(v) for v in made.experiment.varied.values()]


@pytest.mark.parametrize(
    ("depth", "width", "said"),
    [(0.9, 0.7, SAME), (0.7, 0.9, OTHER), (0.7, 0.71, UNCLEAR)],
)
def test_depth_gains_more_than_width_in_the_paper(
    plan: Callable[..., Any], verdict: Callable[..., Both], depth: float, width: float, said: Both
) -> None:
    made = plan("shape")
    finding = made.experiment.finding(made.results(made_up(0.6, depth=depth, width=width, mlp=0.55)))
    assert verdict(finding) == said
    assert "patches" not in finding.here.english  # nothing came of them
    for words in finding.here:
        assert f"{100 * (depth - 0.6):+.1f}" in words
        assert f"{100 * (width - 0.6):+.1f}" in words
        assert "\N{MINUS SIGN}5.0" in words
        assert words.count("3.0") == 3  # times the compute


@pytest.mark.parametrize(
    "score", [made_up(None, depth=0.9, width=0.8), made_up(0.5, width=0.8), made_up(0.5, depth=0.9), made_up(None)]
)
def test_nothing_is_found_without_the_base_or_what_is_compared(
    plan: Callable[..., Any], verdict: Callable[..., Both], score: Scores
) -> None:
    made = plan("shape")
    finding = made.experiment.finding(made.results(score))
    assert finding.here == NOTHING
    assert verdict(finding) == UNCLEAR
