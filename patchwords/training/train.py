"""`patchwords.train`: from a folder of pictures to a trained model and a report, or on from where a run stopped."""

import json
import shlex
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchwords.data.sources.door import place, spelled, would_hide
from patchwords.data.sources.source import Data
from patchwords.errors import PatchwordsError, ResourceError, UsageError
from patchwords.evaluation.classify import Scores
from patchwords.models.model import Model
from patchwords.objectives.kinds import guides_of
from patchwords.settings import present, tables, texts
from patchwords.training import recipe as recipes
from patchwords.training.assemble import Setting, assemble
from patchwords.training.board import board, summary_writer
from patchwords.training.clock import peak
from patchwords.training.conditions import determined, threads
from patchwords.training.distributed import World, world
from patchwords.training.fit import settled
from patchwords.training.guides import bring, expect_guide, placed
from patchwords.training.judge import Judge, Result
from patchwords.training.keeper import RunKeeper
from patchwords.training.loop import Loop
from patchwords.training.pictures import look, opened, sought
from patchwords.training.possible import expect_settings
from patchwords.training.recipe import Recipe, asked, choose
from patchwords.training.result import conclude, report, tested
from patchwords.training.run import checkpoint
from patchwords.training.run.describe import add, describe
from patchwords.training.run.environment import differences, environment
from patchwords.training.run.folder import RunFolder
from patchwords.training.run.same import how, same_data, same_place, unchanged
from patchwords.training.signals import StoppedError, listening
from patchwords.training.start import begin
from patchwords.training.watch import Log, Watcher
from patchwords.weights.card import Card
from patchwords.weights.load import card_of, load


@dataclass(frozen=True)
class Run:
    """What a training leaves: its folder, with the report in it, and how the best model did."""

    folder: Path
    result: Result  # on the validation pictures
    tested: Result | None = None  # on those put aside for a test, where there are any
    signal: int = 0  # that came when there was nothing left to stop
    following: str = ""  # what to do next with a model that has no answers yet

    @property
    def scores(self) -> Scores:
        """Of the model's answers to the validation pictures."""
        if self.result.scores is None:
            raise UsageError(f"the run in {self.folder} learned without labels: it has `result.numbers`, and no scores")
        return self.result.scores

    @property
    def test(self) -> Scores | None:
        return self.tested.scores if self.tested else None

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
    called: str
    again: str

    @property
    def place(self) -> dict[str, Any]:
        """Where what is published may come from."""
        return {"offline": self.offline, "mirror": self.mirror}


def train(
    data: str | Path | Data = "",
    *,
    model: str | None = None,
    weights: str | Path | None = None,
    epochs: float | None = None,
    batch: int | str | None = None,
    image: int | tuple[int, int] | None = None,
    lr: float | None = None,
    freeze: str | None = None,
    seed: int | None = None,
    recipe: str | Path | Recipe | None = None,
    change: Mapping[str, Any] | None = None,
    device: str = "auto",
    out: str | Path | None = None,
    resume: str | Path | None = None,
    deterministic: bool = False,
    tensorboard: bool = False,
    offline: bool = False,
    mirror: str = "",
    watcher: Watcher | None = None,
    called: str = "",
    again: str = "",
) -> Run:
    """Trains a model on a data set, the built-in digits if none is given, or goes on with a run that was stopped.

    Without a `recipe` it is `digits` for the digits, `finetune` with weights and else `scratch`; `change` holds further
    settings by dotted key. Opened `Data` is taken as it is, without a look at its pictures: run.json names it as
    `called`, and whoever resumes gives it again, with the command `again` if there is one.
    """
    if resume is not None and out is not None:
        raise UsageError(f"--out {out} does not apply to --resume: the run stays in {resume}")
    texts(**present(weights=weights, out=out, resume=resume, recipe=None if isinstance(recipe, Recipe) else recipe))
    tables(change={} if change is None else change)
    changes = asked(model, weights, epochs, batch, image, lr, freeze, seed) | dict(change or {})
    wishes = Wishes(deterministic, tensorboard, offline, mirror, called, again)
    if out is not None and would_hide(str(out)):
        raise UsageError(f"--out {out}: a folder called so would hide the data set {out}; choose another name")
    if tensorboard:
        summary_writer()  # what is missing is said before anything is opened
    watcher = watcher or Log()
    given = data if isinstance(data, Data) else spelled(data)
    with determined(deterministic), world(device) as here:
        watcher = watcher if here.leads else Log()
        if resume is not None:
            return _resume(Path(resume), given, recipe, changes, here, watcher, wishes)
        return _start(given, recipe, changes, out, here, watcher, wishes)


def _start(
    given: str | Data,
    name: str | Path | Recipe | None,
    changes: Mapping[str, Any],
    out: str | Path | None,
    here: World,
    watcher: Watcher,
    wishes: Wishes,
) -> Run:
    recipe = placed(choose(given.name if isinstance(given, Data) else given, name, changes, watcher.note))
    bring([recipe.weights, *guides_of(recipe.objective).values()], watcher, **wishes.place)
    expect_guide(recipe.objective)
    data = opened(given, recipe, watcher, offline=wishes.offline, mirror=wishes.mirror)
    model, card = begin(recipe, data)
    recipe = settled(recipe, model, len(data.train), here)
    expect_settings(recipe, model, len(data.train), here.device)
    made = RunFolder.create(None if out is None else Path(out), data.name) if here.leads else None
    if made and data is not given:
        _looked(made, data, recipe, watcher)
    path = Path(here.told(str(made.path if made else "")))
    with made or RunFolder.visit(path) as folder, threads(recipe.threads), listening() as wish:
        setting = Setting(recipe, data, here, watcher, wish)
        if here.leads:
            describe(folder, recipe, data, here.device, called=wishes.called or _called(given), again=wishes.again)
        try:
            loop, keeper, judge = _assembled(setting, model, card, folder, wishes)
        except StoppedError:
            raise  # which can be resumed
        except PatchwordsError:
            folder.withdraw()
            raise
        if here.leads:
            _first(loop, keeper)
        return _run(loop, keeper, judge)


def _resume(
    path: Path,
    given: str | Data,
    name: str | Path | Recipe | None,
    changes: Mapping[str, Any],
    here: World,
    watcher: Watcher,
    wishes: Wishes,
) -> Run:
    with RunFolder.reopen(path) if here.leads else RunFolder.visit(path) as folder:
        stored = recipes.read(path / "recipe.toml")
        run = json.loads((path / "run.json").read_text("utf-8"))
        if "again" in run and not isinstance(given, Data):
            raise UsageError(f"{path} is one training of several: go on with all of them, `{run['again']}`")
        guides = run.get("guides", {})
        recipe = unchanged(stored, name, changes, guides)
        bring(guides_of(recipe.objective).values(), watcher, **wishes.place)
        expect_guide(recipe.objective)
        data = _again(given, run["data"], path, recipe, watcher, wishes)
        same_data(data, json.loads((path / "data.json").read_text("utf-8")))
        if here.leads and data is not given:
            look(data, recipe, watcher)
            if given:
                add(folder, {"data": _called(given)})  # where everyone finds it from now on
        with threads(recipe.threads), listening() as wish:
            elsewhere = differences(run["environment"], environment(here.device))
            for sentence in same_place([*elsewhere, *how(stored, recipe)], wishes.deterministic):
                watcher.note(sentence)
            found = checkpoint.find(folder.checkpoints)  # none where the run was killed before its first one
            model, card = _kept(found.path / "model.safetensors") if found else begin(recipe, data)
            setting = Setting(settled(recipe, model, len(data.train), here), data, here, watcher, wish, guides)
            loop, keeper, judge = _assembled(setting, model, card, folder, wishes)
            if found:
                loop.resume(keeper.restore())
            elif here.leads:
                _first(loop, keeper)
            watcher.note(_where(loop))
            return _run(loop, keeper, judge)


def _looked(folder: RunFolder, data: Data, recipe: Recipe, watcher: Watcher) -> None:
    """The longest of what comes before the first step, so it is the last; what ends here has begun nothing."""
    try:
        look(data, recipe, watcher)
    except BaseException:  # also who leaves meanwhile
        folder.withdraw()
        raise


def _again(given: str | Data, known: str, path: Path, recipe: Recipe, watcher: Watcher, wishes: Wishes) -> Data:
    """The data of a run that goes on: what was given, or where the run knows it to be."""
    if given:
        return opened(given, recipe, watcher, **wishes.place)
    with sought("the data that the run learns from", f"patchwords train DATA --resume {shlex.quote(str(path))}"):
        return opened(known, recipe, watcher, **wishes.place)


def _called(given: str | Data) -> str:
    """What finds the data again; where it was opened before, only its name is known."""
    return given.name if isinstance(given, Data) else place(given or "digits")


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
) -> tuple[Loop, RunKeeper, Judge]:
    loop = assemble(setting, model, card, folder)
    keeper, judge = loop.keeper, loop.judge
    assert isinstance(keeper, RunKeeper)
    assert isinstance(judge, Judge)
    keeper.command = wishes.again
    if setting.guides and setting.world.leads:
        add(folder, {"guides": setting.guides})
    if wishes.tensorboard and setting.world.leads:
        keeper.listeners.append(board(folder.path))
    return loop, keeper, judge


def _run(loop: Loop, keeper: RunKeeper, judge: Judge) -> Run:
    """The loop and what follows it; however it ends, the folder says so."""
    folder = keeper.folder
    _record(loop, keeper, "running")
    try:
        loop.run()
        result = conclude(loop, keeper, judge)
        test = tested(loop, keeper, judge)
    except PatchwordsError as error:
        with suppress(ResourceError):  # a disk that is full for this too must not hide what happened
            _record(loop, keeper, str(error))
        raise
    _record(loop, keeper, "finished", {"scores": result.numbers} | ({"test": test.numbers} if test else {}))
    if loop.world.leads:
        report(folder.path, judge.data.val)
    loop.world.told(None)  # nobody leaves before the report is written
    following = judge.recipe.objective.following.format(run=folder.path)
    return Run(folder.path, result, test, loop.wish.number, following)


def _record(loop: Loop, keeper: RunKeeper, status: str, result: Mapping[str, Any] | None = None) -> None:
    if loop.world.leads:
        known = json.loads((keeper.folder.path / "run.json").read_text("utf-8"))
        memory = max(peak(loop.world.device), known.get("peak_memory", 0))
        said = {"status": status, "seconds": round(loop.clock.seconds(), 3), "peak_memory": memory}
        add(keeper.folder, said | dict(result or {}))
        keeper.folder.write_csv()
