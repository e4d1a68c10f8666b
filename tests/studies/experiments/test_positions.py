"""Table 8: a model with each kind of positions, and no other difference."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from patchwords.pages.both import Both
from patchwords.studies.cell import Cell
from patchwords.studies.experiments.positions import EVERY, SHARED, STEM, TABLE_8
from patchwords.studies.wording import NOTHING, OTHER, SAME, UNCLEAR

Scores = Callable[[Cell], Mapping[str, float] | None]


def made_up(without: float, kinds: float, best: float | None = None) -> Scores:
    """Few-shot accuracies: without positions, of most kinds, and of the one-dimensional ones at the stem."""

    def score(cell: Cell) -> Mapping[str, float] | None:
        key = str(cell.at["positions"]), str(cell.at["where"])
        special = {("none", STEM): without, ("1-D", STEM): best or kinds}
        return {"few_shot": special.get(key, kinds), "accuracy": 0.9}

    return score


def test_the_table_has_the_papers_eight_entries() -> None:
    assert list(TABLE_8) == [
        ("none", STEM),
        *[(kind, place) for kind in ("1-D", "2-D") for place in (STEM, EVERY, SHARED)],
        ("relative", STEM),
    ]


def test_cells_differ_by_their_positions_alone(
    plan: Callable[..., Any], grid: str, differ: Callable[..., set[str]]
) -> None:
    made = plan("positions", grid)
    cells = made.cells()
    model = made.experiment.model
    assert [cell.at for cell in cells] == [{"model": model, "positions": a, "where": b} for a, b in TABLE_8]
    assert differ(cells) == {"parts.position.kind", "parts.position.at", "parts.position.std"}
    assert {cell.stage for cell in cells} == {"pre-training"}
    assert all(cell.data is made.ground.first and cell.after is None for cell in cells)
    assert len(made.cells(0, 1, 2)) == 3 * len(cells)


def test_models_have_the_positions_that_the_table_says(plan: Callable[..., Any], grid: str) -> None:
    made = plan("positions", grid)
    for cell, part in zip(made.cells(), TABLE_8.values(), strict=True):
        position = cell.config.position
        assert position.kind == part["kind"]
        assert getattr(position, "at", "stem") == part.get("at", "stem")
        assert getattr(position, "std", made.experiment.deviation) == made.experiment.deviation


def test_a_line_for_each_place_has_a_point_for_each_kind_with_a_result(plan: Callable[..., Any], grid: str) -> None:
    made = plan("positions", grid)
    every = made.experiment.panels(made.results(made_up(0.5, 0.6)))
    for panel in every:
        assert panel.scale == "names"
        assert {line.name: [point.x for point in line.points] for line in panel.lines} == {
            STEM: ["none", "1-D", "2-D", "relative"],
            EVERY: ["1-D", "2-D"],
            SHARED: ["1-D", "2-D"],
        }
    assert [line.points[0].measure.mean for line in every[0].lines] == [0.5, 0.6, 0.6]
    assert {point.measure.mean for line in every[1].lines for point in line.points} == {0.9}
    score = made_up(0.5, 0.6)
    fewer = made.experiment.panels(
        made.results(lambda cell: None if cell.at["positions"] in ("1-D", "none") else score(cell))
    )
    for panel in fewer:
        assert [[point.x for point in line.points] for line in panel.lines] == [["2-D", "relative"], ["2-D"], ["2-D"]]


@pytest.mark.parametrize(
    ("without", "kinds", "best", "said"),
    [
        (0.5, 0.7, 0.702, SAME),
        (0.7, 0.705, 0.705, UNCLEAR),
        (0.8, 0.7, 0.7, OTHER),  # better without
        (0.5, 0.6, 0.9, OTHER),  # the kind matters
        (0.6, 0.605, 0.9, OTHER),  # the kind matters, whatever the worst is worth
        (0.5, 0.7, 0.711, UNCLEAR),  # neither apart nor surely alike
    ],
)
def test_positions_matter_in_the_paper_and_their_kind_does_not(
    plan: Callable[..., Any], verdict: Callable[..., Both], without: float, kinds: float, best: float, said: Both
) -> None:
    made = plan("positions")
    finding = made.experiment.finding(made.results(made_up(without, kinds, best)))
    assert verdict(finding) == said
    for words in finding.here:
        assert all(f"{100 * share:.1f}" in words for share in (without, kinds, best))


@pytest.mark.parametrize("lost", [("none",), ("1-D", "2-D", "relative"), ("none", "1-D", "2-D", "relative")])
def test_nothing_is_found_without_both_sides(
    plan: Callable[..., Any], verdict: Callable[..., Both], lost: tuple[str, ...]
) -> None:
    made = plan("positions")
    score = made_up(0.5, 0.7)
    finding = made.experiment.finding(made.results(lambda cell: None if cell.at["positions"] in lost else score(cell)))
    assert finding.here == NOTHING
    assert verdict(finding) == UNCLEAR
