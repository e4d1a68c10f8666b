"""Recipes: everything that a training run is told, as one value; in TOML files that state only what differs."""

import re
import shlex
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Literal

from patchwords import settings
from patchwords.data.augment.augment import Augment
from patchwords.data.decoder import Decoder
from patchwords.data.glimpses import Glimpses
from patchwords.data.loader import Loading
from patchwords.data.mix import Mix
from patchwords.data.preprocess import Interpolation, Preprocess
from patchwords.data.sources.split import Split
from patchwords.data.transforms import CropKind, RandomCrop
from patchwords.errors import UsageError
from patchwords.objectives.kinds import ObjectiveKind
from patchwords.objectives.supervised import Supervised
from patchwords.ops.resampling import Convention
from patchwords.settings import at_least, check
from patchwords.speed.kernels.available import Choice
from patchwords.speed.precision import Precision
from patchwords.speed.recompute import Recompute
from patchwords.speed.step import Graph
from patchwords.training.duration import parse
from patchwords.training.optimizer import AdamW, OptimizerKind
from patchwords.training.schedule import Schedule

MOST_PARENTS = 8
OTHERS = (  # in TOML too: what each is, the keys that tell it, and the command that takes it
    ("the grid of a study", {"models", "study"}, "patchwords study NAME DATA --grid {}"),
    ("a list of tasks", {"task"}, "patchwords evaluate MODEL {} --protocol vtab-1k"),
)
Measure = Literal[
    "accuracy",
    "balanced_accuracy",
    "top5",
    "macro_f1",
    "loss",
    "negative_log_likelihood",
    "brier",
    "calibration_error",
    "last",  # no score: the model after the last step
]
HOW = ("data.workers", "data.timeout", "keep", "minutes")  # may change on resume, and change nothing
# These may change too, and the last bits with them.
BITS = ("data.decoder", "micro", "compile", "recompute", "kernels", "graph", "threads")


@dataclass(frozen=True, kw_only=True, slots=True)
class DataRecipe:
    """What the model is fed. `fit` to `deviation` are those of the weights' card unless they are set here."""

    validation: Split = field(default_factory=Split)
    crop: CropKind = field(default_factory=RandomCrop)
    glimpses: Glimpses = field(default_factory=Glimpses)
    augment: Augment = field(default_factory=Augment)
    mix: Mix = field(default_factory=Mix)
    fit: Literal["squash", "crop", "centre"] | None = None
    share: float | None = None
    interpolation: Interpolation | None = None
    mean: tuple[float, ...] | None = None
    deviation: tuple[float, ...] | None = None
    cache: Literal["none", "memory", "device"] = "none"
    workers: int = -1
    timeout: float = 120.0
    decoder: Decoder = "auto"
    broken: float = 0.001

    def __post_init__(self) -> None:
        check(self)
        self.loading  # noqa: B018  (checks workers and timeout)
        self.glimpses.expect(self.crop, mixed=bool(self.mix.mixup or self.mix.cutmix))
        if not 0 <= self.broken <= 1:
            raise UsageError(f"broken {self.broken} is no share of the pictures: choose one from 0 to 1")

    @property
    def loading(self) -> Loading:
        return Loading(workers=self.workers, timeout=self.timeout, decoder=self.decoder)

    def preprocess(self, card: Preprocess) -> Preprocess:
        """The card's preprocessing with what is set here."""
        given: dict[str, Any] = {"fit": self.fit, "crop": self.share, "interpolation": self.interpolation}
        given |= {"mean": self.mean, "deviation": self.deviation}
        return replace(card, **{key: value for key, value in given.items() if value is not None})


@dataclass(frozen=True, kw_only=True, slots=True)
class Recipe:
    """A training run; `parts` are changes to the model's configuration, and `model` may be left to the weights."""

    model: str = ""
    parts: dict[str, Any] = field(default_factory=dict)
    weights: str = ""
    image: tuple[int, int] | None = None
    positions: Literal[Convention, "anew"] = "paper"  # how those of the weights are resampled, or none of them taken
    objective: ObjectiveKind = field(default_factory=Supervised)
    data: DataRecipe = field(default_factory=DataRecipe)
    batch: int | Literal["auto"] = 64
    micro: int = 0
    duration: str = "50 epochs"
    optimizer: OptimizerKind = field(default_factory=AdamW)
    schedule: Schedule = field(default_factory=Schedule)
    clip: float = 0.0
    average: float = 0.0
    freeze: str = ""
    precision: Precision = "float32"
    recompute: Recompute = False
    compile: bool = False
    kernels: Choice = "auto"
    graph: Graph = "auto"  # whether a step is recorded once and replayed whole, on a GPU
    evaluate: str = "1 epoch"
    best: Measure = "accuracy"
    patience: int = 0
    nonfinite: Literal["stop", "skip", "rollback"] = "stop"
    keep: int = 2
    minutes: float = 1.0  # between two checkpoints
    seed: int = 0
    threads: int = 0  # of the CPU; 0 leaves it to torch

    def __post_init__(self) -> None:
        check(self)
        at_least(1, batch=1 if self.batch == "auto" else self.batch)
        at_least(0, micro=self.micro, patience=self.patience, seed=self.seed, threads=self.threads)
        at_least(2, keep=self.keep)
        parse(self.duration)
        parse(self.evaluate)
        if self.seed >= 1 << 63:
            raise UsageError(f"seed {self.seed} does not fit 63 bits: choose a smaller one")
        if self.micro % 2 and self.micro != self.batch and (self.data.mix.mixup or self.data.mix.cutmix):
            raise UsageError(f"micro {self.micro} would part pairs that are mixed: choose an even number")
        if not 0 <= self.average < 1:
            raise UsageError(f"average {self.average} is no decay: choose one from 0 (none) up to, but below, 1")
        if self.best != "last" and not self.objective.classes(2):
            raise UsageError(f'objective {self.objective.kind} has no labels to choose the best by: set best to "last"')
        if self.best == "last" and self.patience:
            raise UsageError(
                f'patience {self.patience} waits for a better score, and with best = "last" none is compared: '
                "set patience to 0, or best to a score"
            )
        if not self.clip >= 0 or not self.minutes > 0:
            raise UsageError(f"clip {self.clip} must be 0 (none) or more, and minutes {self.minutes} above 0")


def read(
    source: str | Path | Recipe, changes: Mapping[str, Any] | None = None, note: Callable[[str], None] = lambda _: None
) -> Recipe:
    """A recipe by its name in the package or by its file, or one that was read before, with dotted keys changed."""
    if not isinstance(source, Recipe):
        source = settings.change(Recipe(), settings.dotted(_resolved(str(source), ())))
    changed = settings.change(source, dict(changes or {}))
    if sentence := _left(source, changed, settings.dotted(changes or {})):
        note(sentence)
    return changed


def _left(before: Recipe, after: Recipe, given: Mapping[str, Any]) -> str:
    """What another kind of optimizer leaves of the recipe's, which is meant for the one that it replaces."""
    usual, old, new = (settings.write(part) for part in (type(before.optimizer)(), before.optimizer, after.optimizer))
    left = [
        key
        for key in old.keys() & new.keys() - {"kind"}
        if old[key] != new[key] and (key == "lr" or old[key] != usual[key]) and f"optimizer.{key}" not in given
    ]
    if old["kind"] == new["kind"] or not left:
        return ""
    own, theirs = (", ".join(f"{key} {table[key]}" for key in old if key in left) for table in (new, old))
    keys = " and ".join(f"optimizer.{key}" for key in old if key in left)
    return (
        f"optimizer {new['kind']} takes its own {own}, and not the recipe's {theirs}, meant for {old['kind']}: "
        f"set {keys} where others are wanted"
    )


def asked(
    model: str | None,
    weights: str | Path | None,
    epochs: float | None,
    batch: int | str | None,
    image: int | tuple[int, int] | None,
    lr: float | None,
    freeze: str | None,
    seed: int | None,
) -> dict[str, Any]:
    """The settings that everybody changes, by dotted key; those that were not given are left to the recipe."""
    given = {
        "model": model,
        "weights": None if weights is None else str(weights),
        "duration": None if epochs is None else _epochs(epochs),
        "batch": batch,
        "image": image,
        "optimizer.lr": lr,
        "freeze": freeze,
        "seed": seed,
    }
    return {key: value for key, value in given.items() if value is not None}


def _epochs(amount: float) -> str:
    """As a duration, whose reader refuses what is no number."""
    return f"{amount:.12g} epochs" if isinstance(amount, int | float) else f"{amount} epochs"


def choose(
    data: str, recipe: str | Path | Recipe | None, changes: Mapping[str, Any], note: Callable[[str], None]
) -> Recipe:
    """The recipe that was named, or the one for such data, with the changes."""
    usual = "finetune" if changes.get("weights") else "digits" if data in ("", "digits") else "scratch"
    return read(recipe or usual, changes, note)


def names() -> list[str]:
    """The recipes of the package."""
    return sorted(name for name, _ in _files(resources.files("patchwords.recipes"), ""))


def cited(name: str) -> str:
    """What a recipe's file says of itself in its first comment."""
    text = dict(_files(resources.files("patchwords.recipes"), ""))[name].read_text("utf-8")
    lines = re.match(r"(?:#.*\n)+", text)
    return " ".join(line.lstrip("# ") for line in lines[0].splitlines()) if lines else ""


def _resolved(source: str, children: tuple[str, ...]) -> dict[str, Any]:
    """The table of a recipe over that of its parent, which `base` names."""
    if source in children or len(children) > MOST_PARENTS:
        raise UsageError(f"recipe {source} leads back to itself: {' -> '.join((*children, source))}")
    table = _table(source)
    parent = table.pop("base", None)
    if parent is None:
        return table
    beside = Path(source).parent / str(parent)
    found = str(beside) if source.endswith(".toml") and beside.is_file() else str(parent)
    return _merged(_resolved(found, (*children, source)), table)


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Tables are merged key by key; a part with another `kind` replaces the one below."""
    merged = dict(below)
    for key, value in above.items():
        under = merged.get(key)
        if isinstance(value, dict) and isinstance(under, str):
            under = {"kind": under}  # for which the word was short
        same = (
            isinstance(value, dict)
            and isinstance(under, dict)
            and value.get("kind", under.get("kind")) == under.get("kind")
        )
        merged[key] = _merged(under, value) if same and isinstance(under, dict) else value
    return merged


def _table(source: str) -> dict[str, Any]:
    known = dict(_files(resources.files("patchwords.recipes"), ""))
    place: Traversable | Path = known.get(source) or Path(source)
    if not place.is_file():
        raise UsageError(f"recipe {source!r} is neither a file nor known; {settings.nearest(source, known)}")
    try:
        table = tomllib.loads(place.read_text("utf-8"))
    except (ValueError, OSError) as error:
        raise UsageError(f"recipe {source} cannot be read as TOML: {error}") from None
    for what, keys, command in OTHERS:
        if table.keys() >= keys:
            raise UsageError(f"{source} is {what} and no recipe: `{command.format(shlex.quote(source))}` takes it")
    return table


def _files(folder: Traversable, prefix: str) -> list[tuple[str, Traversable]]:
    found = []
    for entry in folder.iterdir():
        if entry.is_dir():
            found += _files(entry, f"{prefix}{entry.name}/")
        elif entry.name.endswith(".toml"):
            found.append((prefix + entry.name.removesuffix(".toml"), entry))
    return found
