"""Weights that a study asks about: how a model of their shape learns from scratch beside them."""

from contextlib import suppress
from typing import Any

from patchwords import settings
from patchwords.errors import ModelError, UsageError
from patchwords.models.build import configure
from patchwords.models.names import NAMES, Config
from patchwords.models.tokenizer import TokenizerConfig
from patchwords.studies.grid import Member
from patchwords.weights.card import Card

OTHERS = ("image", "channels", "classes", "head")  # of a model, which the pictures and the study decide


def member(card: Card, weights: str) -> Member:
    """The same model, of the same pictures prepared alike, with and without the weights."""
    name, parts = _nearest(card.model, weights)
    prepared = card.preprocess
    data = {
        "fit": prepared.fit,
        "share": prepared.crop,
        "interpolation": prepared.interpolation,
        "mean": list(prepared.mean),
        "deviation": list(prepared.deviation),
    }
    both = {"image": list(card.model.image), "parts": {}}  # a grid's parts are for its own models
    return Member(model=name, both=both, learn={"parts": parts, "data": data})


def _nearest(config: Config, weights: str) -> tuple[str, dict[str, Any]]:
    """The name of the model that has most in common with this one, and what it must have otherwise."""
    wanted, found = settings.write(config), dict[str, dict[str, Any]]()
    for name in NAMES:
        with suppress(UsageError):  # such pictures do not fit every model
            known = configure(name, image=config.image, channels=config.channels, classes=config.classes)
            table = settings.write(known)
            parts = {key: wanted[key] for key in wanted if key not in OTHERS and wanted[key] != table.get(key)}
            is_possible = None not in parts.values()  # no recipe takes a part away
            if known.kind == config.kind != TokenizerConfig.kind and is_possible:
                found[name] = parts
    if not found:
        raise ModelError(
            f"no model like that of {weights} can be built from scratch (`patchwords show {weights}` shows it): "
            "give weights of a model as `patchwords show models` lists them"
        )
    return min(found.items(), key=lambda pair: len(pair[1]))
