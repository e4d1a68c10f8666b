"""Whether a training is possible at all: what is wrong with its settings is said before anything is learned."""

from dataclasses import replace
from typing import NoReturn

import torch

from patchwords.data.finish import Finish
from patchwords.data.sources.source import Data
from patchwords.models.build import blank
from patchwords.models.model import Model
from patchwords.models.names import Config
from patchwords.objectives.kinds import guides_of
from patchwords.objectives.objective import Surroundings
from patchwords.speed.precision import check_precision
from patchwords.training.assemble import due_steps, plan_of
from patchwords.training.groups import freeze
from patchwords.training.guides import expect_guide, placed
from patchwords.training.needs import expect_needs
from patchwords.training.recipe import Recipe
from patchwords.training.start import learned_positions, named, prepared
from patchwords.weights import card as cards
from patchwords.weights.card import Card


def expect_settings(recipe: Recipe, model: Model, samples: int, device: torch.device) -> None:
    """Refuses settings that this device or this model cannot follow, or that are no training."""
    check_precision(recipe.precision, device)
    freeze(model, recipe.freeze)
    due_steps(recipe, samples, plan_of(recipe, samples).total)


def expect_training(recipe: Recipe, config: Config, data: Data, device: torch.device) -> None:
    """Refuses what a training would refuse that is still to come: asked of a model without memory.

    What other models must say, weights to begin with or a guide, is not asked here, but whether there is a guide.
    """
    model = blank(config)
    settled = recipe if recipe.batch != "auto" else replace(recipe, batch=1)  # whatever fits, it is one or more
    expect_settings(settled, model, len(data.train), device)
    if recipe.positions == "anew":
        learned_positions(model.state_dict())
    expect_guide(placed(recipe).objective)
    if not guides_of(recipe.objective):
        _expect_objective(recipe, model, data)


def _expect_objective(recipe: Recipe, model: Model, data: Data) -> None:
    """Refuses a model that the objective cannot train, and crops that it would not look at."""
    names = named(recipe, data)
    card = prepared(recipe, cards.fitted(Card(model=model.config), model.config, names))
    finish = Finish(
        recipe.data.augment, recipe.data.mix, card.preprocess, len(data.classes), recipe.seed, recipe.data.glimpses
    )
    around = Surroundings(card.preprocess, data.classes, open=_nobody, answers=_nobody)
    with torch.device("meta"):
        objective = recipe.objective.build(model, around)
    expect_needs(objective, recipe, finish)


def _nobody(asked: object) -> NoReturn:
    raise AssertionError("an objective without guides asks none")
