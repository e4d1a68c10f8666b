"""What a cell came to: its scores and what they cost, in a file of its folder, where it is found again."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from patchwords.errors import NonFiniteError
from patchwords.evaluation.answers import Compute
from patchwords.models.cost import cost
from patchwords.speed.device import choose
from patchwords.studies import below, compute
from patchwords.studies.cell import Cell
from patchwords.studies.shots import few_shot
from patchwords.training import recipe as recipes
from patchwords.training.recipe import Recipe
from patchwords.training.report import history
from patchwords.training.run import durable
from patchwords.training.watch import Watcher
from patchwords.weights.card import Card
from patchwords.weights.checkpoint import open_checkpoint
from patchwords.weights.origin import RESULT

FILE = "outcome.json"


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The numbers of a cell; or why there are none: its loss became infinite, or that of the cell before it."""

    numbers: Mapping[str, float] = field(default_factory=dict)
    lost: str = ""


@dataclass(frozen=True, kw_only=True)
class Bench:
    """Where cells are worked on: the study's folder, the device, the command that goes on, and who looks on."""

    folder: Path
    device: str
    again: str
    watcher: Watcher


def known(folder: Path, cell: Cell) -> Outcome | None:
    """The outcome of a cell that was done."""
    path = folder / cell.name / FILE
    return Outcome(**json.loads(path.read_text("utf-8"))) if path.is_file() else None


def perform(cell: Cell, bench: Bench) -> int:
    """Trains a cell, or goes on with it, and writes its outcome; the signal that came too late to stop it."""
    place = bench.folder / cell.name
    if cell.after and (lost := _lost(bench.folder, cell.after)):
        place.mkdir(exist_ok=True)
        return _write(place, Outcome(lost=f"there is no {cell.after.name} to begin with: {lost}"))
    if not below.has_ended(place):
        late = below.learn(
            place,
            cell.data,
            _recipe(cell, bench.folder),
            called=cell.called,
            device=bench.device,
            watcher=bench.watcher,
            again=bench.again,
        )
        if late:
            return late
    try:
        scores = below.ended(place)
    except NonFiniteError as error:
        return _write(place, Outcome(lost=str(error).partition(";")[0]))
    numbers = {**_scores(cell, scores), **_shots(cell, place, bench), **_costs(cell, place)}
    return _write(place, Outcome(numbers=numbers))


def _lost(folder: Path, cell: Cell) -> str:
    """Why a cell has no model; empty where it has one."""
    outcome = known(folder, cell)
    return outcome.lost if outcome else ""


def _recipe(cell: Cell, folder: Path) -> Recipe:
    if cell.after is None:
        return cell.recipe
    return recipes.read(cell.recipe, {"weights": str(folder / cell.after.name / RESULT)})


def _write(place: Path, outcome: Outcome) -> int:
    text = json.dumps({"numbers": dict(outcome.numbers), "lost": outcome.lost}, indent=2)
    durable.replace(place / FILE, text.encode() + b"\n")
    return 0


def _scores(cell: Cell, scores: Mapping[str, float]) -> dict[str, float]:
    """By the judging pictures; without labels an accuracy would be that of something else."""
    keys = ("accuracy", "loss") if cell.recipe.objective.classes(len(cell.data.classes)) else ("loss",)
    return {key: scores[key] for key in keys} | {"judged": len(cell.data.val)}


def _shots(cell: Cell, place: Path, bench: Bench) -> dict[str, float]:
    """What a few labelled pictures make of the features."""
    if not cell.shots or cell.frozen is None:
        return {}
    recipe = cell.recipe
    asked = Compute(device=choose(bench.device), batch=256, precision=recipe.precision, loading=recipe.data.loading)
    found = few_shot(place / RESULT, cell.frozen, cell.shots, asked, recipe.data.broken, bench.watcher)
    return {"few_shot": found, "few_shot_judged": len(cell.frozen.val)}


def _costs(cell: Cell, place: Path) -> dict[str, float]:
    """What the training took, without what came before it."""
    card: Card = open_checkpoint(place / RESULT, depth="shapes").card
    past = history.read(place)
    assert past.images is not None, "a run that has ended says its batch"
    assert past.seconds is not None, "and how long it took"
    return {
        "pictures": len(cell.data.train),
        "steps": past.last["step"],
        "seen": past.images,
        "parameters": cost(card.model).parameters,
        "exaflops": compute.training(card.model, past.images, cell.recipe.freeze),
        "seconds": past.seconds,
    }
