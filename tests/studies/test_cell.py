"""Cells: each a folder of its own, each after the one that it begins with."""

import re
from dataclasses import replace
from typing import Any

import pytest

from patchwords.errors import UsageError
from patchwords.studies import grid as grids
from patchwords.studies.catalogue import EXPERIMENTS, planned
from patchwords.studies.cell import Cell, each_once
from patchwords.training import recipe as recipes


def every(stand: Any, grid: str, study: str) -> list[Cell]:
    ground = stand(grids.read(grid, study, {}))
    return list(planned(study, ground.grid).cells(ground, (0, 1)))


@pytest.mark.parametrize("study", EXPERIMENTS)
@pytest.mark.parametrize("grid", grids.names())
def test_every_cell_has_a_folder_of_its_own(grid: str, study: str, stand: Any) -> None:
    cells = every(stand, grid, study)
    names = [cell.name for cell in cells]
    assert len(set(map(str.lower, names))) == len(names)  # on disks that tell no capitals apart too
    for cell in cells:
        assert re.fullmatch(r"[\w.][\w.-]*", cell.name, re.ASCII)
        assert len(cell.name) < 120
        assert cell.name.startswith(cell.stage.replace(" ", "-"))
        assert cell.name.endswith(f"seed-{cell.seed}")


@pytest.mark.parametrize("study", EXPERIMENTS)
@pytest.mark.parametrize("grid", grids.names())
def test_a_cell_comes_after_the_one_that_it_begins_with(grid: str, study: str, stand: Any) -> None:
    given = every(stand, grid, study)
    cells = each_once(reversed(given))
    assert {cell.name for cell in cells} == {cell.name for cell in given}
    places = {cell.name: number for number, cell in enumerate(cells)}
    assert all(places[cell.after.name] < places[cell.name] for cell in cells if cell.after)


def test_what_a_cell_begins_with_comes_along(cells: list[Cell]) -> None:
    learned, head, whole, scratch = cells
    assert each_once([whole, head]) == [learned, whole, head]
    assert each_once([scratch, scratch]) == [scratch]
    assert list(head.chain) == [head, learned]


def test_two_that_would_share_a_folder_are_refused(cells: list[Cell]) -> None:
    one, other = (replace(cells[0], at={"model": name}) for name in ("R26+S/32", "R26 S/32"))
    assert one.name == other.name
    with pytest.raises(UsageError, match=f"share the folder {one.name}"):
        each_once([one, other])


def test_names_that_people_chose_are_words_of_a_folder(cells: list[Cell]) -> None:
    named = replace(cells[0], at={"model": "../../etc, \n$x* 花", "share": 0.05})
    assert named.name == "pre-training-..-..-etc-x-花-0.05-seed-0"


def test_a_tuned_model_is_that_of_the_first_with_the_classes_and_the_picture_of_the_last(cells: list[Cell]) -> None:
    learned, head, _, _ = cells
    tuned = replace(head, recipe=recipes.read(head.recipe, {"image": 12}))
    assert learned.config is not None
    assert tuned.config == replace(learned.config, image=(12, 12))
    wider = replace(learned, data=replace(learned.data, classes=("a", "b", "c")))
    assert replace(head, after=wider).config == replace(learned.config, classes=len(head.data.classes))


def test_parts_of_the_first_are_parts_of_the_last(cells: list[Cell]) -> None:
    learned, head, _, _ = cells
    deep = replace(learned, recipe=recipes.read(learned.recipe, {"parts.depth": 3}))
    config: Any = replace(head, after=deep).config
    assert config.depth == 3


def test_what_cannot_be_built_is_refused(cells: list[Cell]) -> None:
    odd = replace(cells[1], recipe=recipes.read(cells[1].recipe, {"image": 9}))
    with pytest.raises(UsageError, match="9x9 is not a multiple of patch"):
        odd.config  # noqa: B018


def test_a_file_of_weights_says_itself_what_it_holds(cells: list[Cell]) -> None:
    learned = replace(cells[0], recipe=recipes.read(cells[0].recipe, {"model": "", "weights": "x.npz"}))
    assert learned.config is None
