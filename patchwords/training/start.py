"""The model that a run begins with: built by name, or loaded and fitted to the data's classes (section 3.2)."""

from dataclasses import replace

import torch

from patchwords import settings
from patchwords.data.sources.source import Data
from patchwords.errors import ModelError, UsageError
from patchwords.models.build import configure
from patchwords.models.model import Model
from patchwords.models.names import Config
from patchwords.ops import draws
from patchwords.training.recipe import Recipe
from patchwords.weights import card as cards
from patchwords.weights.card import Card
from patchwords.weights.checkpoint import open_checkpoint
from patchwords.weights.load import card_of, load

SIZES = ("kind", "depth", "width", "mlp", "heads", "patch", "units", "form", "stem.units", "special", "pool")


def begin(recipe: Recipe, data: Data) -> tuple[Model, Card]:
    """The model and its card, which says how pictures are prepared and what the classes are called."""
    model, card = _loaded(recipe, data) if recipe.weights else _built(recipe, data)
    return model, replace(card, preprocess=recipe.data.preprocess(card.preprocess), loss=recipe.objective.loss)


def _built(recipe: Recipe, data: Data) -> tuple[Model, Card]:
    if not recipe.model:
        raise UsageError("no model was named: give --model, for example ViT-S/16, or --weights")
    config = configure(recipe.model, classes=len(data.classes), image=recipe.image, channels=_channels(data))
    config = settings.change(config, settings.dotted(recipe.parts))
    torch.manual_seed(draws.seed("initial", recipe.seed))
    return config.build(), cards.fitted(Card(model=config), config, data.classes)


def _loaded(recipe: Recipe, data: Data) -> tuple[Model, Card]:
    model = load(
        recipe.weights,
        classes=data.classes,
        image=recipe.image,
        channels=_channels(data),
        positions=recipe.positions,
    )
    card, parts = card_of(model), settings.dotted(recipe.parts)
    if recipe.model:
        _compare(recipe, card.model)
    state = dict(model.state_dict())
    if _is_other_head(recipe, data):  # section 3.2: removed, and one of zeros put in its place
        parts = {"head.kind": "linear"} | parts
        state = {name: tensor for name, tensor in state.items() if not name.startswith("head.")}
    config = settings.change(card.model, parts)
    torch.manual_seed(draws.seed("initial", recipe.seed))
    changed = config.build()
    try:
        fresh = {name: tensor for name, tensor in changed.state_dict().items() if name.startswith("head.")}
        changed.load_state_dict(fresh | state)
    except RuntimeError as error:
        reason = str(error).partition("\n")[2].strip().partition("\n")[0]
        raise ModelError(f"parts {recipe.parts} do not fit the weights {recipe.weights}: {reason}") from None
    return changed, replace(card, model=config)


def _is_other_head(recipe: Recipe, data: Data) -> bool:
    """Whether the weights' head is for other classes, or nobody says for which, or the recipe wants another."""
    known = open_checkpoint(recipe.weights, wish=recipe.image, depth="shapes").card.classes
    return known != data.classes or "head" in {key.partition(".")[0] for key in recipe.parts}


def _channels(data: Data) -> int | None:
    """What the model must take; grey and colour are made of each other, so there the model decides."""
    return None if data.channels in (1, 3) else data.channels


def _compare(recipe: Recipe, found: Config) -> None:
    wanted = configure(recipe.model)
    differ = [
        f"{key} {_value(found, key)} and not {_value(wanted, key)}"
        for key in SIZES
        if _value(found, key) != _value(wanted, key)
    ]
    if differ:
        raise ModelError(
            f"{recipe.weights} holds another model than {recipe.model}: it has {', '.join(differ)}; "
            "leave out --model to take what the file holds, or give other weights"
        )


def _value(config: Config, key: str) -> object:
    table = settings.write(config)
    return table.get(key, settings.dotted(table).get(key))
