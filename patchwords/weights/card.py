"""The card: what a weights file says of itself, kept in the metadata of the native safetensors file."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import torch
from torch import Tensor

from patchwords import settings
from patchwords.data.preprocess import Preprocess
from patchwords.errors import ModelError, UsageError
from patchwords.models.names import Config

Loss = Literal["softmax", "sigmoid"]

KEY, DIGEST = "patchwords.card", "patchwords.sha256"


@dataclass(frozen=True, kw_only=True, slots=True)
class Card:
    """Architecture, preprocessing, class names, where the weights come from and under which licence."""

    model: Config
    preprocess: Preprocess = field(default_factory=Preprocess)
    classes: tuple[str, ...] = ()
    loss: Loss = "softmax"  # it learned by: whether its probabilities sum to one
    source: str = ""
    licence: str = ""

    def __post_init__(self) -> None:
        if self.classes and len(self.classes) != self.model.classes:
            raise UsageError(f"{len(self.classes)} class names were given, the model has {self.model.classes} classes")
        if len(set(self.classes)) < len(self.classes):
            raise UsageError("two classes have the same name")


def write(card: Card, state: Mapping[str, Tensor]) -> dict[str, str]:
    """The metadata of a native file: the card, and a hash of all, since a flipped bit would load silently."""
    text = json.dumps(settings.write(card), ensure_ascii=False)
    return {"format": "pt", KEY: text, DIGEST: digest(text, state)}


def read(metadata: Mapping[str, str]) -> Card:
    try:
        return settings.read(json.loads(metadata[KEY]), Card)
    except (ValueError, RecursionError, UsageError) as error:
        raise ModelError(f"the file's card cannot be read: {error}") from None


def verify(metadata: Mapping[str, str], state: Mapping[str, Tensor]) -> None:
    if digest(metadata[KEY], state) != metadata.get(DIGEST):
        raise ModelError("the file is damaged: its hash is not the one it was written with; fetch or write it again")


def digest(card: str, state: Mapping[str, Tensor]) -> str:
    """SHA-256 over the card, then names, kinds, shapes and bytes of the tensors in the order of their names."""
    total = hashlib.sha256(card.encode())
    for name in sorted(state):
        tensor = state[name].detach().cpu().contiguous()
        total.update(f"\n{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
        total.update(tensor.view(-1).view(dtype=torch.uint8).numpy().data if tensor.numel() else b"")
    return total.hexdigest()


def fitted(card: Card, model: Config, classes: tuple[str, ...]) -> Card:
    """The card of the same weights after `adapt`: another model, its size and class names."""
    channels = model.channels
    preprocess = each_channel(replace(card.preprocess, size=model.image), channels)
    if channels != len(preprocess.mean):  # channels without known statistics are centred
        preprocess = replace(preprocess, mean=(0.5,) * channels, deviation=(0.5,) * channels)
    return replace(card, model=model, preprocess=preprocess, classes=classes)


def each_channel(preprocess: Preprocess, channels: int) -> Preprocess:
    """With a mean and a deviation for each channel, also where one stands for all."""
    if len(preprocess.mean) > 1:
        return preprocess
    return replace(preprocess, mean=preprocess.mean * channels, deviation=preprocess.deviation * channels)
