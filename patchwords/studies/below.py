"""A training in a folder below that of a study: begun, gone on with, or read where it has ended."""

import gc
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from patchwords import settings
from patchwords.data.sources.source import Data
from patchwords.errors import NonFiniteError
from patchwords.training import recipe as recipes
from patchwords.training.recipe import Recipe
from patchwords.training.run import durable
from patchwords.training.run.describe import RUN, add
from patchwords.training.run.folder import CHECKPOINTS, RECIPE, RunFolder
from patchwords.training.run.toml import toml
from patchwords.training.train import train
from patchwords.training.watch import Watcher

LOST = "lost"  # in run.json: how the numbers became infinite
Numbers = dict[str, float]


def learn(place: Path, data: Data, recipe: Recipe, *, called: str, device: str, watcher: Watcher, again: str) -> int:
    """Trains to the end, from where it stopped if it did; the signal that came when there was nothing to stop.

    Numbers that became infinite are an end too: the same training would come to the same step.
    """
    is_begun = (place / CHECKPOINTS).is_dir()
    if is_begun:
        _find_again(place, recipe)
    else:
        with durable.refusals(place):
            durable.remove(place)  # killed before there was anything to go on from
    try:
        return train(
            data,
            recipe=recipe,
            device=device,
            out=None if is_begun else place,
            resume=place if is_begun else None,
            watcher=watcher,
            called=called,
            again=again,
        ).signal
    except NonFiniteError as error:
        with RunFolder.reopen(place) as folder:
            folder.write_json(RUN, _run(place) | {LOST: str(error)})
        return 0
    finally:
        if torch.cuda.is_available():
            gc.collect()  # a model in a ring of references would hold the GPU's memory while the next one trains


def _find_again(place: Path, recipe: Recipe) -> None:
    """What it began with may lie elsewhere by now: whoever asks for it has made sure that it is the same."""
    stored = recipes.read(place / RECIPE)
    if stored.weights != recipe.weights:
        text = toml(settings.write(replace(stored, weights=recipe.weights)))
        durable.replace(place / RECIPE, text.encode())


def tell(place: Path, called: str) -> None:
    """Says where the data of a training is found from now on, if that was begun at all."""
    if (place / RUN).is_file() and _run(place).get("data", called) != called:
        add(RunFolder.visit(place), {"data": called})


def has_ended(place: Path) -> bool:
    """Whether all is there; a training killed before its report writes that again."""
    if not (place / RUN).is_file():
        return False
    run = _run(place)
    return LOST in run or (run.get("status") == "finished" and (place / "report.html").is_file())


def ended(place: Path) -> Numbers:
    """The scores of a training that has ended, or the NonFiniteError that it ended with."""
    with durable.refusals(place):
        durable.remove(place / CHECKPOINTS)  # a model each, often a gigabyte, and of no use any more
    run = _run(place)
    if LOST in run:
        raise NonFiniteError(run[LOST])
    scores: Numbers = run["scores"]
    return scores


def _run(place: Path) -> dict[str, Any]:
    run: dict[str, Any] = json.loads((place / RUN).read_text("utf-8"))
    return run
