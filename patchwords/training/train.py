"""`patchwords.train`: from a folder of pictures to a trained model and a report, or on from where a run stopped."""

import datetime
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from patchwords import settings
from patchwords.data.check.check import check
from patchwords.data.sources.door import open_data
from patchwords.data.sources.source import Data
from patchwords.errors import DataError, PatchwordsError, ResourceError, UsageError
from patchwords.evaluation.classify import Scores
from patchwords.models.model import Model
from patchwords.training import recipe as recipes
from patchwords.training.assemble import Judgement, Setting, assemble, due_steps, plan_of
from patchwords.training.board import board
from patchwords.training.clock import peak
from patchwords.training.distributed import World, world
from patchwords.training.fit import settled
from patchwords.training.groups import freeze
from patchwords.training.keeper import RunKeeper
from patchwords.training.loop import Loop
from patchwords.training.recipe import BITS, HOW, Recipe
from patchwords.training.result import conclude, report, tested
from patchwords.training.run import checkpoint
from patchwords.training.run.environment import differences, environment
from patchwords.training.run.folder import RunFolder
from patchwords.training.run.toml import toml
from patchwords.training.signals import listening
from patchwords.training.start import begin
from patchwords.training.watch import Log, Watcher
from patchwords.weights.card import Card
from patchwords.weights.load import card_of, load


@dataclass(frozen=True)
class Run:
    """What a training leaves: its folder, with the report in it, and the scores of the best model."""

    folder: Path
    scores: Scores
    test: Scores | None = None  # of the pictures put aside for a test, where there are any

    @property
    def model(self) -> Model:
        return load(self.folder / "model.safetensors")

    @property
    def report(self) -> Path:
        return self.folder / "report.html"


@dataclass(frozen=True)
class Wishes:
    """What a person asked for beside the settings."""

    deterministic: bool
    tensorboard: bool
    offline: bool
    mirror: str


def train(
    data: str | Path = "",
    *,
    model: str | None = None,
    weights: str | Path | None = None,
    epochs: float | None = None,
    batch: int | str | None = None,
    image: int | tuple[int, int] | None = None,
    lr: float | None = None,
    freeze: str | None = None,
    seed: int | None = None,
    recipe: str | Path | None = None,
    change: Mapping[str, Any] | None = None,
    device: str = "auto",
    out: str | Path | None = None,
    resume: str | Path | None = None,
    deterministic: bool = False,
    tensorboard: bool = False,
    offline: bool = False,
    mirror: str = "",
    watcher: Watcher | None = None,
) -> Run:
    """Trains a model on a data set, the built-in digits if none is given, or goes on with a run that was stopped.

    Without a `recipe` it is `digits` for the digits, `finetune` with weights and else `scratch`; `change` holds further
    settings by dotted key.
    """
    if resume is not None and out is not None:
        raise UsageError(f"--out {out} does not apply to --resume: the run stays in {resume}")
    changes = asked(model, weights, epochs, batch, image, lr, freeze, seed) | dict(change or {})
    wishes = Wishes(deterministic, tensorboard, offline, mirror)
    watcher = watcher or Log()
    with _determined(deterministic), world(device) as here:
        watcher = watcher if here.leads else Log()
        if resume is not None:
            return _resume(Path(resume), str(data), recipe, changes, here, watcher, wishes)
        return _start(str(data), recipe, changes, out, here, watcher, wishes)


@contextmanager
def _threads(number: int) -> Iterator[None]:
    """So many threads of the CPU, where the recipe says how many."""
    before = torch.get_num_threads()
    torch.set_num_threads(number or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _determined(wanted: bool) -> Iterator[None]:
    """Operations that give the same bits each time or none at all, where that is wanted."""
    before = torch.are_deterministic_algorithms_enabled()
    if wanted:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)


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
        "duration": None if epochs is None else f"{epochs:.12g} epochs",
        "batch": batch,
        "image": image,
        "optimizer.lr": lr,
        "freeze": freeze,
        "seed": seed,
    }
    return {key: value for key, value in given.items() if value is not None}


def choose(data: str, recipe: str | Path | None, changes: Mapping[str, Any]) -> Recipe:
    """The recipe that was named, or the one for such data, with the changes."""
    usual = "finetune" if changes.get("weights") else "digits" if data in ("", "digits") else "scratch"
    return recipes.read(recipe or usual, changes)


def _start(
    given: str,
    name: str | Path | None,
    changes: Mapping[str, Any],
    out: str | Path | None,
    here: World,
    watcher: Watcher,
    wishes: Wishes,
) -> Run:
    recipe = choose(given, name, changes)
    data = opened(given, recipe, watcher, offline=wishes.offline, mirror=wishes.mirror)
    if here.leads:
        look(data, recipe, watcher)
    model, card = begin(recipe, data)
    recipe = settled(recipe, model, len(data.train), here)
    _possible(recipe, model, len(data.train))
    made = RunFolder.create(None if out is None else Path(out), data.name) if here.leads else None
    path = Path(here.told(str(made.path if made else "")))
    with made or RunFolder.visit(path) as folder, _threads(recipe.threads), listening() as wish:
        setting = Setting(recipe, data, here, watcher, wish)
        if here.leads:
            _describe(folder, setting, given or "digits")
        loop, keeper, judgement = _assembled(setting, model, card, folder, wishes)
        if here.leads:
            _first(loop, keeper)
        return _run(loop, keeper, judgement)


def _resume(
    path: Path,
    given: str,
    name: str | Path | None,
    changes: Mapping[str, Any],
    here: World,
    watcher: Watcher,
    wishes: Wishes,
) -> Run:
    with RunFolder.reopen(path) if here.leads else RunFolder.visit(path) as folder:
        stored, run = recipes.read(path / "recipe.toml"), json.loads((path / "run.json").read_text("utf-8"))
        recipe = _unchanged(stored, name, changes)
        data = opened(given or run["data"], recipe, watcher, offline=wishes.offline, mirror=wishes.mirror)
        _same_data(data, json.loads((path / "data.json").read_text("utf-8")))
        if here.leads:
            look(data, recipe, watcher)
        with _threads(recipe.threads), listening() as wish:
            elsewhere = differences(run["environment"], environment(here.device))
            _same_place([*elsewhere, *_how(stored, recipe)], watcher, wishes)
            found = checkpoint.find(folder.checkpoints)  # none where the run was killed before its first one
            model, card = _kept(found.path / "model.safetensors") if found else begin(recipe, data)
            setting = Setting(settled(recipe, model, len(data.train), here), data, here, watcher, wish)
            loop, keeper, judgement = _assembled(setting, model, card, folder, wishes)
            if found:
                loop.resume(keeper.restore())
            elif here.leads:
                _first(loop, keeper)
            watcher.note(_where(loop))
            return _run(loop, keeper, judgement)


def _where(loop: Loop) -> str:
    step = f"step {loop.state.step} of {loop.total}"
    if loop.state.stopped or loop.state.evaluated == loop.total:
        return f"the run has finished with {step}: only its result and its report are written again"
    return f"going on after {step}"


def _kept(path: Path) -> tuple[Model, Card]:
    model = load(path)
    return model, card_of(model)


def _first(loop: Loop, keeper: RunKeeper) -> None:
    """A checkpoint before the first step, so that a disk without room is found early."""
    checkpoint.room(keeper.folder.checkpoints, keeper.needed())
    keeper.save(loop.state)


def _assembled(
    setting: Setting, model: Model, card: Card, folder: RunFolder, wishes: Wishes
) -> tuple[Loop, RunKeeper, Judgement]:
    loop = assemble(setting, model, card, folder)
    keeper, judgement = loop.keeper, loop.judge
    assert isinstance(keeper, RunKeeper)
    assert isinstance(judgement, Judgement)
    if wishes.tensorboard and setting.world.leads:
        keeper.listeners.append(board(folder.path))
    return loop, keeper, judgement


def _run(loop: Loop, keeper: RunKeeper, judgement: Judgement) -> Run:
    """The loop and what follows it; however it ends, the folder says so."""
    folder = keeper.folder
    _record(loop, keeper, "running")
    try:
        loop.run()
        scores = conclude(loop, keeper, judgement)
        test = tested(loop, keeper, judgement)
    except PatchwordsError as error:
        with suppress(ResourceError):  # a disk that is full for this too must not hide what happened
            _record(loop, keeper, str(error))
        raise
    _record(loop, keeper, "finished", test)
    if loop.world.leads:
        report(folder.path, judgement.setting.data.val)
    loop.world.told(None)  # nobody leaves before the report is written
    return Run(folder.path, scores, test)


def _record(loop: Loop, keeper: RunKeeper, status: str, test: Scores | None = None) -> None:
    if loop.world.leads:
        path = keeper.folder.path / "run.json"
        known = json.loads(path.read_text("utf-8"))
        memory = max(peak(loop.world.device), known.get("peak_memory", 0))
        seconds = round(loop.clock.seconds(), 3)
        said = {"status": status, "seconds": seconds, "peak_memory": memory}
        keeper.folder.write_json("run.json", known | said | ({"test": test.numbers()} if test else {}))
        keeper.folder.write_csv()


def opened(given: str, recipe: Recipe, watcher: Watcher, *, offline: bool, mirror: str) -> Data:
    """The data set, with what a person should know of it."""
    given = given or "digits"
    fetching = partial(watcher.working, f"downloading {given}")
    data = open_data(given, split=recipe.data.validation, offline=offline, mirror=mirror, progress=fetching)
    total, counts = (
        sum(map(len, data.splits.values())),
        ", ".join(f"{len(source):,} to {split}" for split, source in data.splits.items()),
    )
    watcher.note(f"{data.name}: {total:,} pictures of {len(data.classes)} classes ({counts})")
    for note in data.notes:
        watcher.note(note)
    return data


def look(data: Data, recipe: Recipe, watcher: Watcher) -> None:
    """What is wrong with the pictures, as far as that is quickly found, before the first step."""
    findings = check(
        data, depth="quick", progress=partial(watcher.working, "looking at the pictures"), note=watcher.note
    )
    for sentence in findings.sentences():
        watcher.note(sentence)
    total = len(data.train) + len(data.val)
    for finding in findings.errors:
        if finding.kind == "unreadable" and finding.count > recipe.data.broken * total:
            raise DataError(
                f"{finding.count} of {total} pictures cannot be read, more than the allowed share of "
                f"{recipe.data.broken:g}: {finding.examples()}; mend or remove them (`patchwords check` lists all), "
                "or set data.broken"
            )


def _possible(recipe: Recipe, model: Model, samples: int) -> None:
    """What is wrong with the settings is said before there is a folder."""
    freeze(model, recipe.freeze)
    due_steps(recipe, samples, plan_of(recipe, samples).total)


def _describe(folder: RunFolder, setting: Setting, given: str) -> None:
    """The files that say what the run is; the recipe last, since with it a run is begun and can be resumed."""
    data = setting.data
    place = str(Path(given).resolve()) if Path(given).exists() else given
    folder.write_json("classes.json", list(data.classes))
    folder.write_json("data.json", _manifest(data))
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    here = environment(setting.world.device)
    folder.write_json(
        "run.json", {"data": place, "command": sys.argv, "started": now, "device": here["device"], "environment": here}
    )
    folder.write_text("recipe.toml", toml(settings.write(setting.recipe)))


def _manifest(data: Data) -> dict[str, Any]:
    names = {split: [source.name(index) for index in range(len(source))] for split, source in data.splits.items()}
    counts = {split: len(source) for split, source in data.splits.items()}
    return {"name": data.name, "digest": data.digest(), "counts": counts, "notes": list(data.notes), "names": names}


def _unchanged(stored: Recipe, name: str | Path | None, changes: Mapping[str, Any]) -> Recipe:
    """The recipe of a run; what decides its result cannot be changed any more."""
    base = recipes.read(name) if name else stored
    wanted = settings.change(base, dict(changes))
    if wanted.batch == "auto":
        wanted = replace(wanted, batch=stored.batch)  # what it became
    before, after = settings.dotted(settings.write(stored)), settings.dotted(settings.write(wanted))
    changed = [
        key for key in before.keys() | after.keys() if before.get(key) != after.get(key) and key not in HOW + BITS
    ]
    if changed:
        said = "; ".join(
            f"{key} was {before.get(key)!r} and would be {after.get(key)!r}" for key in sorted(changed)[:6]
        )
        raise UsageError(
            f"a resumed run keeps its settings: {said}. Leave these out, or start a new run without --resume"
        )
    return wanted


def _same_data(data: Data, before: Mapping[str, Any]) -> None:
    if data.digest() == before["digest"]:
        return
    then = {name for names in before["names"].values() for name in names}
    now = {source.name(index) for source in data.splits.values() for index in range(len(source))}
    differ = [f"{name} is gone" for name in sorted(then - now)] + [f"{name} is new" for name in sorted(now - then)]
    said = ", ".join(differ[:5]) or "the sizes of pictures, their order or their split"
    raise DataError(
        f"the data is not what the run began with ({said}): bring it back, or start a new run without --resume"
    )


def _how(stored: Recipe, wanted: Recipe) -> list[str]:
    """A sentence for each setting that changes how a result is computed, and so its last bits."""
    before, after = settings.write(stored), settings.write(wanted)
    changed = [key for key in BITS if before[key] != after[key] and not (key == "micro" and not after[key])]
    return [f"{key} is {after[key]} now and was {before[key]} before: the last bits may differ" for key in changed]


def _same_place(changed: Sequence[str], watcher: Watcher, wishes: Wishes) -> None:
    """What is otherwise than it was is said, or refused where the same bits are wanted."""
    if changed and wishes.deterministic:
        raise UsageError(f"{'; '.join(changed)}. Go on as the run began, or leave out --deterministic")
    for sentence in changed:
        watcher.note(sentence)
