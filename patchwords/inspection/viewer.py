"""A model with pictures before it: what it is shown, and what it says of them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from patchwords.data.sources.source import Pixels
from patchwords.data.transforms import normalise
from patchwords.evaluation.classify import probabilities
from patchwords.inspection.pictures import Album, Shot
from patchwords.models.model import Model
from patchwords.weights.subject import Subject

AT_ONCE = 16 * 224 * 224  # pixels, and no more than
MOST = 64  # pictures


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What a model takes a picture for."""

    number: int
    name: str
    probability: float


@dataclass(frozen=True, kw_only=True)
class Viewer:
    """A model on its device, and its pictures where there are any."""

    subject: Subject
    device: torch.device
    album: Album | None = None

    @property
    def model(self) -> Model:
        return self.subject.model

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of its pictures."""
        return self.subject.card.preprocess.size

    def inputs(self, images: Pixels) -> Tensor:
        """Pictures (batch, channels, height, width) as the model takes them."""
        return normalise(torch.from_numpy(images).to(self.device), self.subject.card.preprocess)

    def batches(self, count: int) -> Iterator[Tensor]:
        """The first `count` pictures that can be read, some at a time."""
        assert self.album, "asked for pictures where there are none"
        height, width = self.size
        some = min(MOST, max(1, AT_ONCE // (height * width)))
        for images in self.album.batches(count, some):
            yield self.inputs(images)

    @torch.inference_mode()
    def verdicts(self, shots: Sequence[Shot]) -> list[Verdict | None]:
        """One for each picture, of a model that has classes."""
        if not self.subject.card.model.classes:
            return [None] * len(shots)
        return [self._verdict(self.model(self.inputs(shot.image[None]))) for shot in shots]

    def _verdict(self, logits: Tensor) -> Verdict:
        number = int(logits.argmax())
        names = self.subject.card.classes
        chance = probabilities(logits, loss=self.subject.card.loss)[0, number]
        return Verdict(number=number, name=names[number] if names else f"class {number}", probability=float(chance))
