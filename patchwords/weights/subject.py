"""MODEL, as the verbs take it: a run folder, a weights file of any known format, published weights, or a mere name."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch
from torch import nn

from patchwords import settings
from patchwords.errors import UsageError
from patchwords.models import names
from patchwords.models.build import build
from patchwords.models.model import Model
from patchwords.weights import card as cards
from patchwords.weights import store
from patchwords.weights.card import Card
from patchwords.weights.checkpoint import open_checkpoint
from patchwords.weights.load import made
from patchwords.weights.origin import Origin, origin_of

RANDOM = "random weights"  # the source of what nobody trained
UNTRAINED = "{} is the name of a model without weights, whose answers would mean nothing: give a run folder, a weights "
UNTRAINED += "file or published weights (`patchwords show zoo`)"


@dataclass(frozen=True)
class Subject:
    """A model to be examined, ready to answer, with its card and what a person should hear of it."""

    name: str  # short, for headings and folders
    model: Model
    card: Card
    notes: tuple[str, ...] = ()
    origin: Origin | None = None

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the weights and of how pictures are prepared for them: whether this is the same model."""
        text = json.dumps(settings.write(self.card), sort_keys=True, ensure_ascii=False)
        return cards.digest(text, self.model.state_dict())


def open_subject(
    given: str | Path,
    *,
    image: tuple[int, int] | None = None,
    heads: int | None = None,
    trained_at: tuple[int, int] | None = None,
    fetch: Callable[[str], Path] = store.fetch,
) -> Subject:
    """The model that is meant, at another size of the picture where `image` says so.

    `heads` and `trained_at` are for files that do not tell them. A name alone gives random weights, and says so.
    """
    _expect(given)
    path, word = Path(given), str(given)
    if not word:
        raise UsageError("no model was named: give a run folder, a weights file or published weights")
    if not path.exists() and names.fits(word):
        return _random(word, image)
    origin = origin_of(path)
    with torch.inference_mode(False):
        checkpoint = open_checkpoint(given, heads=heads, image=trained_at, wish=image, fetch=fetch)
        model = made(checkpoint, numbers={"image": image}).eval()
    card: Card = vars(model)["card"]
    return Subject(_name(path, origin), model, card, tuple(checkpoint.notes), origin)


def open_trained(
    given: str | Path | Subject,
    *,
    image: int | tuple[int, int] | None = None,
    heads: int | None = None,
    fetch: Callable[[str], Path] = store.fetch,
) -> Subject:
    """The model that is meant, opened already or not, if it has learned anything: random weights are refused."""
    if isinstance(given, Subject):
        if image is not None or heads is not None:
            raise UsageError("image and heads belong to the opening of a file: give them to open_subject")
        subject = given
    else:
        _expect(given)
        if not Path(given).exists() and names.fits(str(given)):
            raise UsageError(UNTRAINED.format(given))
        size = (image, image) if isinstance(image, int) else image
        subject = open_subject(given, image=size, heads=heads, fetch=fetch)
    if subject.card.source == RANDOM:
        raise UsageError(UNTRAINED.format(subject.name))
    return subject


def _expect(given: object) -> None:
    """Refuses what no MODEL can be, with what to do with a module: what is examined comes with its card, in a file."""
    if isinstance(given, nn.Module):
        raise UsageError(
            f"model: {type(given).__name__} is a module, and a file or a run folder is wanted: "
            "save it with patchwords.save(model, 'model.safetensors'), and give that"
        )
    settings.texts(model=given)


def _random(name: str, image: tuple[int, int] | None) -> Subject:
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(0)  # the same ones each time
        model = build(name, image=image).eval()
    card = cards.fitted(Card(model=model.config, source=RANDOM), model.config, ())
    return Subject(name, model, card, (f"{name} is a name alone: its weights are random, and so are its answers",))


def _name(path: Path, origin: Origin | None) -> str:
    """The run's name, and which checkpoint it is; or the file's without its ending."""
    if origin:
        run, place = origin.folder.resolve(), (path if path.is_dir() else path.parent).resolve()
        return run.name if place == run else f"{run.name}-{place.name}"
    return path.resolve().name if path.is_dir() else path.stem if path.exists() else path.name
