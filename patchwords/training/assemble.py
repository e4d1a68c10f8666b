"""The parts of a run, put together from a recipe, a data set and a model."""

import math
from dataclasses import dataclass, field
from functools import cached_property, partial

import torch

from patchwords.data.augment import rounds
from patchwords.data.broken import Broken
from patchwords.data.cache import Held, hold
from patchwords.data.finish import Finish
from patchwords.data.loader import Cut
from patchwords.data.order import Order, share
from patchwords.data.sources.source import Data
from patchwords.errors import UsageError
from patchwords.models.model import Model
from patchwords.objectives.kinds import guides_of
from patchwords.objectives.objective import Guide, Objective, Surroundings
from patchwords.speed.precision import scaler
from patchwords.speed.prepare import prepare
from patchwords.training import duration, optimizer
from patchwords.training.average import Average
from patchwords.training.distributed import World
from patchwords.training.feed import Cached, Streamed
from patchwords.training.groups import freeze, groups
from patchwords.training.guides import guide_answers, open_guide
from patchwords.training.judge import ByAnswers, ByLoss, Judge
from patchwords.training.keeper import RunKeeper
from patchwords.training.loop import Feed, Loop, State
from patchwords.training.needs import expect_needs
from patchwords.training.recipe import Recipe
from patchwords.training.run.folder import RunFolder
from patchwords.training.run.same import same_guide
from patchwords.training.schedule import Plan
from patchwords.training.signals import StoppedError, Wish, word
from patchwords.training.update import Update
from patchwords.training.watch import Watcher
from patchwords.weights.card import Card


@dataclass(frozen=True)
class Setting:
    """What all parts of a run know."""

    recipe: Recipe
    data: Data
    world: World
    watcher: Watcher
    wish: Wish
    guides: dict[str, str] = field(default_factory=dict)  # digests, by setting; run.json keeps them

    @cached_property
    def broken(self) -> Broken:
        """One for the whole run: a picture is named once, and train and val count together."""
        return Broken(self.recipe.data.broken, len(self.data.train) + len(self.data.val), self.watcher.note)


@dataclass(frozen=True)
class Parts:
    """What an update is made of."""

    objective: Objective
    average: Average | None
    order: Order
    feed: Feed
    update: Update


def parts(setting: Setting, model: Model, card: Card) -> Parts:
    """The model on its device with an optimizer, and the batches that it will be fed."""
    recipe, world = setting.recipe, setting.world
    assert isinstance(recipe.batch, int), "`auto` was settled before"
    model.to(world.device)
    freeze(model, recipe.freeze)
    objective = recipe.objective.build(model, surroundings(setting, card)).to(world.device)
    finish = Finish(
        recipe.data.augment,
        recipe.data.mix,
        card.preprocess,
        len(setting.data.classes),
        recipe.seed,
        recipe.data.glimpses,
        run=rounds.run if recipe.kernels == "plain" else rounds.fastest(world.device, setting.watcher.note),
    )
    expect_needs(objective, recipe, finish)
    kinds = groups(objective, decay=recipe.optimizer.decay, layer_decay=recipe.optimizer.layer_decay)
    prepare(
        objective,
        kernels=recipe.kernels,
        recomputed=recipe.recompute,
        compiled=recipe.compile,
        device=world.device,
        precision=recipe.precision,
        note=setting.watcher.note,
    )
    order = Order(recipe.seed, len(setting.data.train), recipe.data.augment.repeats)
    part = share(recipe.batch, world.rank, world.size)
    update = Update(
        module=world.wrap(objective),
        objective=objective,
        optimizer=optimizer.build(recipe.optimizer, kinds, world.device),
        scaler=scaler(recipe.precision, world.device),
        finish=finish,
        world=world,
        watcher=setting.watcher,
        precision=recipe.precision,
        clip=recipe.clip,
        batch=recipe.batch,
        micro=recipe.micro,
        first=part.start,
        skips=recipe.nonfinite == "skip",
        graph=recipe.graph,
        alone=recipe.data.cache != "none",  # files are decoded, or at least cut, on the device
    )
    average = Average(model, recipe.average) if recipe.average else None
    return Parts(objective, average, order, feed_of(setting, card, order, part), update)


def surroundings(setting: Setting, card: Card) -> Surroundings:
    """What an objective may ask."""
    return Surroundings(
        preprocess=card.preprocess,
        classes=setting.data.classes,
        open=partial(_guide, setting),
        answers=lambda guide: guide_answers(
            guide,
            setting.recipe,
            setting.data.train,
            card,
            setting.world.device,
            setting.broken,
            partial(_working, setting, "asking the teacher about the pictures to train with"),
        ),
    )


def _guide(setting: Setting, name: str) -> Guide:
    """A model to learn from; a run that goes on gets the one that it began with, or none."""
    guide = open_guide(name, setting.world.device)
    for key in (key for key, named in guides_of(setting.recipe.objective).items() if named == name):
        same_guide(key, name, guide.digest, setting.guides.setdefault(key, guide.digest))
    return guide


def assemble(setting: Setting, model: Model, card: Card, folder: RunFolder) -> Loop:
    """A loop at its first step; `Loop.resume` takes it to another."""
    recipe, samples = setting.recipe, len(setting.data.train)
    plan = plan_of(recipe, samples)
    made = parts(setting, model, card)
    update = made.update
    return Loop(
        objective=made.objective,
        update=update,
        average=made.average,
        plan=plan,
        lr=optimizer.scaled(recipe.optimizer, update.batch),
        feed=made.feed,
        judge=judge_of(setting, made.objective, card, made.average),
        keeper=RunKeeper(
            folder=folder,
            objective=made.objective,
            card=card,
            optimizer=update.optimizer,
            scaler=update.scaler,
            average=made.average,
            keep=recipe.keep,
            writes=setting.world.leads,
            watcher=setting.watcher,
        ),
        order=made.order,
        source=setting.data.train,
        world=setting.world,
        watcher=setting.watcher,
        wish=setting.wish,
        state=State(),
        due=due_steps(recipe, samples, plan.total),
        best=recipe.best,
        patience=recipe.patience,
        nonfinite=recipe.nonfinite,
        minutes=recipe.minutes,
    )


def judge_of(setting: Setting, objective: Objective, card: Card, average: Average | None) -> Judge:
    """By its answers where the model has classes; else by what the objective itself says."""
    kept = held(setting, card, "val") if setting.recipe.data.cache != "none" else None
    kind = ByAnswers if card.model.classes else ByLoss
    return kind(
        recipe=setting.recipe,
        data=setting.data,
        world=setting.world,
        wish=setting.wish,
        broken=setting.broken,
        objective=objective,
        card=card,
        average=average,
        cache=kept,
    )


def plan_of(recipe: Recipe, samples: int) -> Plan:
    """The schedule in steps."""
    assert isinstance(recipe.batch, int)
    per_epoch = samples / recipe.batch
    total = duration.steps(recipe.duration, per_epoch=per_epoch, total=None)
    if total < 1:
        raise UsageError(f"duration {recipe.duration} is no training: choose one step or more")
    return recipe.schedule.plan(total=total, per_epoch=per_epoch)


def due_steps(recipe: Recipe, samples: int, total: int) -> frozenset[int]:
    """After which steps the model is judged: every so many epochs or steps, and after the last."""
    assert isinstance(recipe.batch, int)
    amount, unit = duration.parse(recipe.evaluate)
    every = {"epochs": samples / recipe.batch, "steps": 1.0, "%": total / 100}[unit] * amount
    if every <= 0:
        raise UsageError(f"evaluate {recipe.evaluate} is no rhythm: write 1 epoch, 500 steps or 5%")
    count = math.floor(total / every + 1e-9)
    return frozenset({max(1, math.ceil(round(number * every, 6))) for number in range(1, count + 1)} | {total})


def feed_of(setting: Setting, card: Card, order: Order, part: slice) -> Feed:
    """Batches from files, or from a cache that is filled here."""
    recipe, source, world = setting.recipe, setting.data.train, setting.world
    assert isinstance(recipe.batch, int)
    cut = Cut(source, recipe.data.crop, card.preprocess, card.model.channels, recipe.seed, recipe.data.glimpses)
    if recipe.data.cache == "none":
        return Streamed(cut, order, recipe.batch, part, recipe.data.loading, setting.broken, world.device)
    return Cached(held(setting, card, "train"), cut, order, recipe.batch, part, world.device)


def held(setting: Setting, card: Card, split: str) -> Held:
    """A split, decoded once and kept on the device or on the host."""
    fed, source = setting.recipe.data, setting.data.splits[split]
    return hold(
        source,
        fed.crop if split == "train" else None,
        card.preprocess,
        card.model.channels,
        setting.world.device if fed.cache == "device" else torch.device("cpu"),
        fed.loading,
        setting.broken,
        partial(_working, setting, f"decoding the pictures to {split} with"),
    )


def _working(setting: Setting, what: str, done: int, total: int) -> None:
    """Tells how far it is; asked to stop, it leaves, since nothing is there yet that could be lost."""
    setting.watcher.working(what, done, total)
    if number := setting.wish.number:
        raise StoppedError(number, f"stopped by {word(number)} while {what}: nothing is lost")
