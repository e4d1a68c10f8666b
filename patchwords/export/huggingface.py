"""A Hugging Face folder, which transformers' pipelines load: pictures prepared alike, and the same answers."""

import os
import secrets
import shutil
from collections.abc import Callable
from dataclasses import replace
from math import floor
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from patchwords.data.preprocess import Preprocess
from patchwords.data.transforms import prepare
from patchwords.errors import ModelError, UsageError
from patchwords.export import parity
from patchwords.export.model_card import README, model_card
from patchwords.export.pictures import made
from patchwords.export.wish import Wish
from patchwords.models.resnet import ResNetConfig
from patchwords.weights import load
from patchwords.weights.card import Card, each_channel
from patchwords.weights.checkpoint import Checkpoint, open_checkpoint
from patchwords.weights.convert import convert
from patchwords.weights.subject import Subject

GREY = (0.299, 0.587, 0.114)  # what Pillow makes grey of: red, green and blue
FIRST = "embed.patch.weight"
COLOURS = "pipelines of transformers give pictures of 3 channels"
TENSORS = "`patchwords convert MODEL DIR --to huggingface` writes a folder for those who bring tensors of their own"
WIDENED = "pipelines of transformers give pictures in colour: the model's kernels were widened from grey to colour, "
WIDENED += "weighted as grey is made of it"
EVERY = (
    "transformers cuts the middle out of every picture one pixel nearer to the edge, as {} pixels are left over: its "
)
EVERY += "answers differ a little"
SOME = "transformers cuts the middle out of a picture one pixel nearer to the edge where its shape leaves 3, 7, 11, … "
SOME += "pixels over: there its answers differ a little"
STORED = "pipelines of transformers turn pictures upright as the camera noted, and this model takes them as stored"
UNLICENSED = f"no licence is known: say one in {README} before you publish it"
FILES = 8  # that are prepared in both ways


class UnsayableError(ModelError):
    """A model that transformers has no class for, or would answer otherwise."""


def write(subject: Subject, folder: Path) -> list[str]:
    """Weights, config.json, preprocessor_config.json and a model card, compared with the model before they are there.

    The answer is what the user should know.
    """
    if folder.exists():
        raise UsageError(f"{folder} exists already: choose another name, or remove it first")
    checkpoint, notes = _in_colour(_checkpoint(subject))
    notes += _differences(checkpoint.card.preprocess)
    folder.parent.mkdir(parents=True, exist_ok=True)
    aside = folder.parent / f".patchwords-{secrets.token_hex(4)}"
    try:
        notes += _convert(checkpoint, aside)
        text = model_card(subject, "transformers", folder.resolve().name)
        (aside / README).write_text(text, encoding="utf-8")
        _check(subject, aside)
        os.replace(aside, folder)
    finally:
        shutil.rmtree(aside, ignore_errors=True)  # nothing is there once it has its name
    return notes if subject.card.licence else [*notes, UNLICENSED]


def _checkpoint(subject: Subject) -> Checkpoint:
    """Without the licence, since the model card says it, and with a mean for each channel, as transformers wants it."""
    if not (state := dict(subject.model.state_dict())):
        raise UsageError(f"{subject.name} is a program without weights of its own: give the model it was made from")
    card = subject.card
    prepared = each_channel(card.preprocess, card.model.channels)
    return Checkpoint(replace(card, licence="", preprocess=prepared), state, "native")


def _in_colour(checkpoint: Checkpoint) -> tuple[Checkpoint, list[str]]:
    """The model for pictures in colour, which is all that pipelines give; and what is to be said of that."""
    card = checkpoint.card
    if card.model.channels == 3:
        return checkpoint, []
    if card.model.channels != 1:
        raise UnsayableError(f"{COLOURS}, and this model takes {card.model.channels}: {TENSORS}")
    if isinstance(card.model, ResNetConfig):
        raise UnsayableError(f"{COLOURS}; this ResNet takes grey ones and standardises its kernels: {TENSORS}")
    if FIRST not in checkpoint.state or getattr(card.model, "stem", None):
        raise UnsayableError("transformers has no model with such a stem: native holds everything")
    kernel = checkpoint.state[FIRST]
    colours = torch.tensor(GREY, dtype=kernel.dtype)[None, :, None, None].to(kernel.device)
    config = replace(card.model, channels=3)
    wide = replace(card, model=config, preprocess=each_channel(card.preprocess, 3))
    return replace(checkpoint, card=wide, state=checkpoint.state | {FIRST: kernel * colours}), [WIDENED]


def _differences(preprocess: Preprocess) -> list[str]:
    """Where pictures are prepared otherwise than here and no setting helps (docs/hub.md has the figures)."""
    notes = [STORED] if preprocess.orientation == "stored" else []
    if preprocess.fit == "squash":
        return notes
    over = [floor(side / preprocess.crop + 1e-9) - side for side in preprocess.size]
    if odd := [pixels for pixels in over if pixels % 4 == 3]:  # halved, it rounds down, and torchvision to even
        return [*notes, EVERY.format(odd[0])]
    return [*notes, SOME] if preprocess.fit == "crop" else notes


def _convert(checkpoint: Checkpoint, folder: Path) -> list[str]:
    card = checkpoint.card
    if card.model.classes == 1 and card.loss == "softmax":
        raise UnsayableError("of one class transformers computes a sigmoid, and this model learned by a softmax")
    try:
        return convert(checkpoint, folder, "huggingface")
    except ModelError as error:
        raise UnsayableError(str(error)) from error


def _check(subject: Subject, folder: Path) -> None:
    """Reads the folder as a stranger would: pictures must be prepared alike, and the answers be the same."""
    read = open_checkpoint(folder)
    card, back = subject.card, read.card
    prepared = replace(card.preprocess, orientation=back.preprocess.orientation)  # of which there is a note
    for file in made(FILES):
        ours, theirs = (prepare(file, each, card.model.channels) for each in (prepared, back.preprocess))
        if not np.array_equal(ours, theirs):
            raise ModelError(f"{subject.name} is prepared otherwise once it is read back: nothing was written")
    if back.classes not in (card.classes, ()) or (card.model.classes and back.loss != card.loss):
        raise ModelError(f"{subject.name} has other classes once it is read back: nothing was written")
    again = load.made(read).eval()
    device = next(subject.model.parameters()).device
    model = subject.model.cpu().eval()
    try:
        found = parity.compare(model, _shown(again, card), card, Wish(), lambda done, total: None)
    finally:
        model.to(device)
    parity.check(found, f"the folder of {subject.name}")


def _shown(model: Callable[[Tensor], Tensor], card: Card) -> Callable[[Tensor], Tensor]:
    """The model that was read, asked about the pictures of the given one: grey ones are shown to it in colour."""
    return (lambda images: model(images.repeat(1, 3, 1, 1))) if card.model.channels == 1 else model
