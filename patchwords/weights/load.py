"""`patchwords.load` and `save`: any known file to a model, a model to a native file."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch

from patchwords import settings
from patchwords.errors import UsageError
from patchwords.models.build import blank
from patchwords.models.model import Model
from patchwords.ops.resampling import CONVENTIONS, Convention
from patchwords.weights import card as cards
from patchwords.weights import files
from patchwords.weights.adapt import adapt, shapes
from patchwords.weights.card import Card
from patchwords.weights.checkpoint import Checkpoint, open_checkpoint
from patchwords.weights.rules import State, compare

logger = logging.getLogger("patchwords")

Size = int | tuple[int, int]


def load(
    path: str | Path,
    *,
    classes: int | Sequence[str] | None = None,
    image: Size | None = None,
    channels: int | None = None,
    patch: Size | None = None,
    window: Size | None = None,
    positions: Convention = "paper",
    heads: int | None = None,
    trained_at: Size | None = None,
) -> Model:
    """A model with the weights of any known file, fitted to other classes, size, channels, patch or window where asked.

    `heads` and `trained_at` (the picture's size) are for files that do not tell them.
    """
    settings.texts(path=path)
    if positions not in CONVENTIONS:
        raise UsageError(f"positions {positions!r} is no convention; {settings.nearest(str(positions), CONVENTIONS)}")
    with torch.inference_mode(False):  # or the parameters could never be trained
        checkpoint = open_checkpoint(path, heads=heads, image=_pair(trained_at), wish=_pair(image))
        for note in checkpoint.notes:
            logger.warning("%s: %s", path, note)
        numbers = {"image": image, "channels": channels, "patch": patch, "window": window}
        return made(checkpoint, classes, numbers, positions)


def made(
    checkpoint: Checkpoint,
    classes: int | Sequence[str] | None = None,
    numbers: Mapping[str, object] | None = None,
    positions: Convention = "paper",
) -> Model:
    """The model of an opened file, with its card."""
    card, state = adapted(checkpoint, classes, dict(numbers or {}), positions)
    model = blank(card.model)
    model.load_state_dict({name: tensor.float() for name, tensor in state.items()}, assign=True)
    vars(model)["card"] = card
    return model


def adapted(
    checkpoint: Checkpoint,
    classes: int | Sequence[str] | None,
    numbers: dict[str, object],
    positions: Convention,
) -> tuple[Card, State]:
    """Card and weights for other numbers; the head is kept where the classes are the same."""
    card, state, old = checkpoint.card, checkpoint.state, checkpoint.card.model
    names = card.classes if classes is None or isinstance(classes, int) else _names(classes)
    count = old.classes if classes is None else classes if isinstance(classes, int) else len(names)
    changes = {key: value for key, value in numbers.items() if value is not None} | {"classes": count}
    if count != old.classes or (card.classes and names != card.classes):
        names = names if count == len(names) else ()
        state = {name: tensor for name, tensor in state.items() if not name.startswith("head.")}
        changes["head"] = settings.write(old.head.renewed)
    new = settings.change(old, changes)
    return cards.fitted(card, new, names), adapt(state, old, new, positions)


def card_of(model: Model) -> Card:
    """What is known of a model's weights: the card they were loaded with, or a bare one."""
    card: Card = vars(model).get("card") or Card(model=model.config)
    return replace(card, model=model.config)


def save(model: Model, path: str | Path, card: Card | None = None) -> None:
    """A model as a native file; a loaded model keeps its card unless another is given."""
    if not isinstance(model, Model):
        raise UsageError(
            f"{type(model).__name__} is not a model of patchwords: save the one that was compiled or wrapped"
        )
    settings.texts(path=path)
    card = replace(card or card_of(model), model=model.config)
    write_native(Path(path), card, dict(model.state_dict()))


def write_native(path: Path, card: Card, state: State) -> None:
    if path.suffix != ".safetensors":
        raise UsageError(f"{path.name}: a native file ends in .safetensors")
    compare(state, shapes(card.model))
    files.write(path, state, cards.write(card, state))


def _names(classes: Sequence[str]) -> tuple[str, ...]:
    names = tuple(classes) if isinstance(classes, Iterable) else (classes,)
    if isinstance(classes, str) or not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        said = settings.shown(classes)
        raise UsageError(f"classes {said} are no list of different names: give such a list, or their number")
    return names


def _pair(size: Size | None) -> tuple[int, int] | None:
    return (size, size) if isinstance(size, int) else size
