"""Other models that a run learns from (teachers, tokenizers), opened frozen; and what one says of every picture."""

import importlib
import os
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from patchwords import settings
from patchwords.data.broken import Broken
from patchwords.data.preprocess import Preprocess
from patchwords.data.sources.door import place
from patchwords.data.sources.source import Source
from patchwords.errors import ModelError, NetworkError, UsageError
from patchwords.evaluation.answers import Compute, Progress, answers
from patchwords.models import names
from patchwords.objectives.beit import BEiT
from patchwords.objectives.distill import Distill
from patchwords.objectives.guide import shown
from patchwords.objectives.kinds import ObjectiveKind, guides_of
from patchwords.objectives.objective import Guide
from patchwords.training.recipe import DataRecipe, Recipe
from patchwords.training.watch import Watcher
from patchwords.weights import card as cards
from patchwords.weights import store
from patchwords.weights.card import Card
from patchwords.weights.checkpoint import open_checkpoint
from patchwords.weights.subject import RANDOM, open_subject
from patchwords.weights.zoo import ZOO

MOST = 300  # letters of a reason
LIBRARY = "timm"  # found when it is asked for by name, and never needed (docs/decisions/2026-11-16-timm-teachers.md)
UNTAUGHT = "{} is a name alone, and random weights teach nothing: give a run folder, a weights file, "
UNTAUGHT += f"published weights (`patchwords show zoo`) or {LIBRARY}:NAME"


def open_guide(name: str, device: torch.device) -> Guide:
    """Any MODEL that was trained, or timm:NAME, or timm:NAME@FILE with the weights of a file."""
    guide = _theirs(name) if name.startswith(f"{LIBRARY}:") else _ours(name)
    guide.model.to(device).eval().requires_grad_(False)
    return guide


def bring(published: Iterable[str], watcher: Watcher, *, offline: bool, mirror: str) -> None:
    """Published weights are here before anything is begun with them; what would be a download later is refused offline.

    Where a mirror is, or that there is to be no connection, is known to whoever began the run, and to nobody below.
    """
    for name in published:
        if name in ZOO and not Path(name).exists():
            working = partial(watcher.working, f"downloading {name}")
            store.fetch(name, offline=offline, mirror=mirror, progress=working)
        elif offline and name.startswith(f"{LIBRARY}:") and "@" not in name:
            raise NetworkError(f"{name} may be a download, and nothing is downloaded offline: give {name}@FILE")


def expect_guide(objective: ObjectiveKind) -> None:
    """Refuses what is no model to learn from, as far as that is known without reading it whole."""
    match objective:
        case Distill(guide=name) | BEiT(guide=name):
            _expect(name)


def placed(recipe: Recipe) -> Recipe:
    """The recipe with guides that are found from anywhere: their whole paths where they are files."""
    return settings.change(recipe, {key: _place(name) for key, name in guides_of(recipe.objective).items()})


def _place(name: str) -> str:
    if not name.startswith(f"{LIBRARY}:"):
        return place(name) if name else ""
    model, at, file = name.partition("@")
    return f"{model}{at}{place(file)}" if file else name


def guide_answers(
    guide: Guide,
    recipe: Recipe,
    source: Source,
    card: Card,
    device: torch.device,
    broken: Broken,
    progress: Progress,
) -> NDArray[Any]:
    """A guide's answers (pictures, classes) to all training pictures, which must look the same each time.

    A picture that cannot be read gets those of the next one, which training shows in its place.
    """
    for key, (given, still) in _steady(recipe.data).items():
        if given != still:
            raise UsageError(
                f"{key} = {given} shows a picture differently each time, so answers to it cannot be kept: "
                f"set it to {still}, or objective.cache to false"
            )
    found = answers(
        partial(_answer, guide, card.preprocess),
        source,
        card.preprocess,
        card.model.channels,
        Compute(device=device, precision=recipe.precision, loading=recipe.data.loading),
        broken,
        progress,
    )
    return found.outputs[np.searchsorted(found.indices, np.arange(len(source))) % len(found.indices)]


def _answer(guide: Guide, given: Preprocess, images: Tensor) -> Tensor:
    said: Tensor = guide.model(shown(images, given, guide.preprocess))
    return said


def _steady(data: DataRecipe) -> dict[str, tuple[object, object]]:
    """What decides how a picture looks: as it is set, and as it must be for it to look as in evaluation."""
    augment, mix = data.augment, data.mix
    return {
        "data.crop.kind": (data.crop.kind, "whole"),
        "data.augment.flip": (augment.flip, 0.0),
        "data.augment.policy.kind": (augment.policy.kind, "none"),
        "data.augment.jitter": (augment.jitter, 0.0),
        "data.augment.erase": (augment.erase, 0.0),
        "data.mix.mixup": (mix.mixup, 0.0),
        "data.mix.cutmix": (mix.cutmix, 0.0),
    }


def _expect(name: str) -> None:
    if name.startswith(f"{LIBRARY}:"):
        _library(name, name.partition("@")[2])
    elif not Path(name).exists() and names.fits(name):
        raise UsageError(UNTAUGHT.format(name))
    elif Path(name).exists() or name not in ZOO:
        open_checkpoint(name, depth="shapes")


def _ours(name: str) -> Guide:
    subject = open_subject(name)
    if subject.card.source == RANDOM:
        raise UsageError(UNTAUGHT.format(name))
    return Guide(subject.model, subject.card.preprocess, subject.card.classes, subject.digest)


def _theirs(given: str) -> Guide:
    """A model of timm, which names no classes: they are in the order of its data, ImageNet's as everywhere."""
    name, _, file = given.removeprefix(f"{LIBRARY}:").partition("@")
    model = _created(given, name, file)
    told: dict[str, Any] = model.pretrained_cfg  # type: ignore[assignment]  # of every model there
    preprocess = Preprocess(
        size=tuple(told["input_size"][1:]),
        fit="crop",
        crop=told["crop_pct"],
        interpolation=told["interpolation"],
        mean=tuple(told["mean"]),
        deviation=tuple(told["std"]),
    )
    told_apart = cards.digest(name, model.state_dict()) if file else given  # published ones by their name
    return Guide(model, preprocess, digest=told_apart)


def _library(given: str, file: str) -> Any:
    """timm, where it can make what was given as far as that is known without making it."""
    try:
        library = importlib.import_module(LIBRARY)
    except ImportError as error:
        raise UsageError(
            f"{given} needs {LIBRARY}, which cannot be imported ({error}): `pip install {LIBRARY}`, or give a teacher "
            "that is no name of it"
        ) from None
    if file and not Path(file).is_file():
        raise ModelError(f"{given}: there is no file {file}; write {LIBRARY}:NAME@FILE, or {LIBRARY}:NAME to download")
    if not file and os.environ.get("PATCHWORDS_OFFLINE", "") not in ("", "0"):
        raise NetworkError(f"{given} may be a download, and PATCHWORDS_OFFLINE is set: give {LIBRARY}:NAME@FILE")
    return library


def _created(given: str, name: str, file: str) -> nn.Module:
    library = _library(given, file)
    try:
        return _filled(library, name, file) if file else library.create_model(name, pretrained=True)
    except OSError as error:
        raise NetworkError(f"{given} could not be fetched ({error}): try again, or give {LIBRARY}:NAME@FILE") from error
    except (RuntimeError, ValueError) as error:
        first, _, more = str(error).partition("\n")
        reason = f"{first} {more.strip().partition(chr(10))[0]}".strip() if first.endswith(":") else first
        raise ModelError(
            f"{LIBRARY} cannot make {given}: {reason if len(reason) < MOST else reason[:MOST] + ' …'}"
        ) from error


def _filled(library: Any, name: str, file: str) -> nn.Module:
    """A model with the weights of a file, for as many classes as these are for; nothing in the file is run."""
    if file.endswith(".npz"):  # which timm reads while it makes the model
        found: nn.Module = library.create_model(name, checkpoint_path=file)
        return found
    try:
        state: dict[str, Tensor] = library.models.load_state_dict(file, weights_only=True)
    except Exception as error:  # damaged files make their readers fail in every way there is
        raise ModelError(
            f"{file} cannot be read ({type(error).__name__}): it is damaged, or holds more than tensors, and those are "
            "never run; fetch it again, or save its state_dict alone"
        ) from error
    model: Any = library.create_model(name)
    last = model.pretrained_cfg.get("classifier")
    weight = state.get(f"{last if isinstance(last, str) else next(iter(last or ()), '')}.weight")
    if weight is not None and len(weight) != model.num_classes:
        model.reset_classifier(len(weight))
    model.load_state_dict(state)
    made: nn.Module = model
    return made
