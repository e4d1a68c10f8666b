"""What the run folder of a model tells of its training, as far as it may be published: no paths of this machine."""

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchwords.errors import ModelError
from patchwords.weights.checkpoint import open_checkpoint
from patchwords.weights.origin import RECIPE, RESULT
from patchwords.weights.subject import Subject
from patchwords.weights.zoo import ZOO

SPLITS = {"scores": "validation", "test": "test"}  # what run.json calls them
SETTINGS = ("objective.kind", "duration", "batch", "optimizer.kind", "optimizer.lr", "optimizer.decay", "seed")


@dataclass(frozen=True, kw_only=True)
class Training:
    """The data's name and parts, the weights it began with, the settings that say most, and scores by split."""

    data: str
    counts: Mapping[str, int]
    weights: str
    settings: Mapping[str, str]
    scores: Mapping[str, Mapping[str, float]]


def training_of(subject: Subject) -> Training | None:
    """None for a model that no run folder is known of."""
    if subject.origin is None:
        return None
    folder = subject.origin.folder
    try:
        recipe = tomllib.loads((folder / RECIPE).read_text("utf-8"))
        data, run = (json.loads((folder / name).read_text("utf-8")) for name in ("data.json", "run.json"))
        return Training(
            data=str(data["name"]),
            counts={str(part): int(count) for part, count in data["counts"].items()},
            weights=_public(str(recipe.get("weights", ""))),
            settings={key: str(value) for key in SETTINGS if (value := _at(recipe, key)) is not None},
            scores=_scores(subject, folder, run),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelError(
            f"what the run in {folder} says of its training cannot be read ({type(error).__name__}: {error}): "
            f"copy its {RESULT} elsewhere, and give that"
        ) from error


def _scores(subject: Subject, folder: Path, run: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    """Those of the run's result, if that is what is given, and as it was judged."""
    is_result = subject.name == folder.resolve().name and (folder / RESULT).is_file()
    if not is_result or open_checkpoint(folder / RESULT, depth="shapes").card != subject.card:
        return {}
    found = {split: run[key] for key, split in SPLITS.items() if "accuracy" in run.get(key, {})}
    return {
        split: {key: row[key] for key in ("count", "accuracy", "loss") if key in row} for split, row in found.items()
    }


def _public(weights: str) -> str:
    """A name of the zoo, or the file's name alone."""
    return weights if weights in ZOO or not weights else Path(weights).name


def _at(table: Mapping[str, Any], key: str) -> Any:
    """What stands at a dotted key."""
    value: Any = table
    for part in key.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value
