"""The model that a run begins with: built by name, or loaded and fitted to the data's classes (section 3.2)."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from patchwords import settings
from patchwords.data.sources.source import Data
from patchwords.errors import ModelError, UsageError
from patchwords.models.build import configure
from patchwords.models.model import Model
from patchwords.models.names import Config
from patchwords.objectives.kinds import loss_of
from patchwords.ops import draws
from patchwords.training.recipe import Recipe
from patchwords.weights import biases
from patchwords.weights import card as cards
from patchwords.weights.adapt import is_position
from patchwords.weights.card import Card
from patchwords.weights.checkpoint import open_checkpoint
from patchwords.weights.load import card_of, load

SIZES = ("kind", "depth", "depths", "width", "mlp", "heads", "patch", "units", "form", "stem.units", "special")
ENDING = ("head.", "pool.", "encoder.norm.")  # what comes after the last block
FITTED = ("patch", "window")  # parts that weights are resampled to, as they are to another picture
TRAINED = ("pool", "position")  # of a model that is named: as it is trained, whatever the weights were trained as


def begin(recipe: Recipe, data: Data) -> tuple[Model, Card]:
    """The model and its card, which says how pictures are prepared and what the classes are called."""
    names = named(recipe, data)
    model, card = _loaded(recipe, data, names) if recipe.weights else _built(recipe, data, names)
    return model, prepared(recipe, card)


def named(recipe: Recipe, data: Data) -> tuple[str, ...]:
    """What the model's classes will be called; nothing where it learns without labels."""
    return data.classes if recipe.objective.classes(len(data.classes)) else ()


def prepared(recipe: Recipe, card: Card) -> Card:
    """The card with how the recipe has pictures prepared, and what its objective makes of logits."""
    preprocess = cards.each_channel(recipe.data.preprocess(card.preprocess), card.model.channels)
    return replace(card, preprocess=preprocess, loss=loss_of(recipe.objective))


def _built(recipe: Recipe, data: Data, names: tuple[str, ...]) -> tuple[Model, Card]:
    if not recipe.model:
        raise UsageError("no model was named: give --model, for example ViT-S/16, or --weights")
    config = configure(recipe.model, classes=len(names), image=recipe.image, channels=_channels(data))
    config = _changed(config, settings.dotted(recipe.parts))
    torch.manual_seed(draws.seed("initial", recipe.seed))
    return config.build(), cards.fitted(Card(model=config), config, names)


def _loaded(recipe: Recipe, data: Data, names: tuple[str, ...]) -> tuple[Model, Card]:
    parts = settings.dotted(recipe.parts)
    model = _fitted(recipe, data, names, parts)
    card, state = card_of(model), dict(model.state_dict())
    config = _named(recipe, card.model) if recipe.model else card.model
    if _is_other_head(recipe, names):  # section 3.2: removed, and one of zeros put in its place
        parts = settings.dotted({"head": settings.write(card.model.head.renewed)}) | parts
        state = {name: tensor for name, tensor in state.items() if not name.startswith("head.")}
    config = _changed(config, parts)
    torch.manual_seed(draws.seed("initial", recipe.seed))
    changed = config.build()
    fresh, state = changed.state_dict(), biases.spread(state, config)
    if recipe.positions == "anew":
        state = _placed_anew(fresh, state)
    try:
        changed.load_state_dict(_ended(fresh, state))
    except RuntimeError as error:
        reason = str(error).partition("\n")[2].strip().partition("\n")[0]
        what = f"{recipe.model} and parts {recipe.parts}" if recipe.model else f"parts {recipe.parts}"
        raise ModelError(f"{what} do not fit the weights {recipe.weights}: {reason}") from None
    return changed, replace(card, model=config)


def _fitted(recipe: Recipe, data: Data, names: tuple[str, ...], parts: Mapping[str, Any]) -> Model:
    """The model of the weights, for the data's classes and channels and the recipe's picture, patch and window."""
    return load(
        recipe.weights,
        classes=names,
        image=recipe.image,
        channels=_channels(data),
        positions="paper" if recipe.positions == "anew" else recipe.positions,  # then none of them is kept
        **{key: parts[key] for key in FITTED if key in parts},
    )


def _changed(config: Config, parts: Mapping[str, Any]) -> Config:
    try:
        return settings.change(config, parts)
    except UsageError as error:
        raise UsageError(f"parts of a {config.kind}: {error} (--set parts={{}} leaves all as they are)") from None


def _placed_anew(fresh: Mapping[str, Tensor], state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights with all positions as the model starts with them, whatever they were and on whatever grid."""
    positions = learned_positions(fresh)
    return {name: tensor for name, tensor in state.items() if not is_position(name)} | positions


def learned_positions(fresh: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Those that a new model starts with; a model that learns none is refused, since nothing could start anew."""
    positions = {name: tensor for name, tensor in fresh.items() if is_position(name)}
    if not positions:
        raise UsageError(
            'positions "anew" has nothing to start anew, the model has no positions that are learned: '
            "leave positions as they are, or give weights and parts of a model that learns some"
        )
    return positions


def _ended(fresh: Mapping[str, Tensor], state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights with what comes after the last block as the model has it: another pool or norm starts fresh."""
    kept = {name: tensor for name, tensor in state.items() if name in fresh or not name.startswith(ENDING)}
    return {name: tensor for name, tensor in fresh.items() if name.startswith(ENDING)} | kept


def _is_other_head(recipe: Recipe, names: tuple[str, ...]) -> bool:
    """Whether the weights' head is for other classes, or nobody says for which, or the recipe wants another."""
    known = open_checkpoint(recipe.weights, wish=recipe.image, depth="shapes").card.classes
    return known != names or "head" in {key.partition(".")[0] for key in recipe.parts}


def _channels(data: Data) -> int | None:
    """What the model must take; grey and colour are made of each other, so there the model decides."""
    return None if data.channels in (1, 3) else data.channels


def _named(recipe: Recipe, found: Config) -> Config:
    """What the weights hold, with pool and positions of the model that was named; another size is refused."""
    wanted = _changed(configure(recipe.model), settings.dotted(recipe.parts))
    if differ := list(_differences(found, wanted)):
        raise ModelError(
            f"{recipe.weights} holds another model than {recipe.model}: it has {', '.join(differ)}; "
            "name no model (--set model='\"\"') to take what the file holds, or give other weights"
        )
    table = settings.write(wanted)
    return settings.change(found, {key: table[key] for key in TRAINED if key in table})


def _differences(found: Config, wanted: Config) -> Iterator[str]:
    """Sizes that are not the same; of pools only MAP's, whose weights a name alone does not throw away."""
    pools = {_value(found, "pool.kind"), _value(wanted, "pool.kind")}
    for key in (*SIZES, "pool.kind") if "map" in pools else SIZES:
        if _value(found, key) != _value(wanted, key):
            yield f"{key} {_value(found, key)} and not {_value(wanted, key)}"


def _value(config: Config, key: str) -> object:
    table = settings.write(config)
    return table.get(key, settings.dotted(table).get(key))
