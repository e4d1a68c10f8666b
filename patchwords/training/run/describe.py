"""The files that say what a run is, written before its first step."""

import datetime
import json
import sys
from collections.abc import Mapping
from typing import Any

import torch

from patchwords import settings
from patchwords.data.sources.source import Data
from patchwords.training.recipe import Recipe
from patchwords.training.run.environment import environment
from patchwords.training.run.folder import RECIPE, RunFolder
from patchwords.training.run.toml import toml

RUN = "run.json"


def describe(folder: RunFolder, recipe: Recipe, data: Data, device: torch.device, *, called: str, again: str) -> None:
    """Classes, pictures, circumstances; the recipe last, since with it a run is begun and can be resumed.

    `called` finds the data again, and `again` is the command that goes on where that is not `patchwords train`.
    """
    folder.write_json("classes.json", list(data.classes))
    folder.write_json("data.json", _manifest(data))
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    here = environment(device)
    told = {"data": called, "command": sys.argv, "started": now, "device": here["device"], "environment": here}
    folder.write_json(RUN, told | ({"again": again} if again else {}))
    folder.write_text(RECIPE, toml(settings.write(recipe)))


def add(folder: RunFolder, told: Mapping[str, Any]) -> None:
    """More of what run.json says."""
    known = json.loads((folder.path / RUN).read_text("utf-8"))
    folder.write_json(RUN, known | dict(told))


def _manifest(data: Data) -> dict[str, Any]:
    names = {split: [source.name(index) for index in range(len(source))] for split, source in data.splits.items()}
    counts = {split: len(source) for split, source in data.splits.items()}
    return {"name": data.name, "digest": data.digest(), "counts": counts, "notes": list(data.notes), "names": names}
