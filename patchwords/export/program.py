"""An exported ONNX graph that is asked as a model is, by onnxruntime on the CPU."""

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor

from patchwords.errors import ModelError, ResourceError, UsageError
from patchwords.export.pixels import pixels_of
from patchwords.export.wish import Wish
from patchwords.models.model import Model, Shows
from patchwords.weights.card import Card

SILENT = "an exported file says its answer and nothing else: ask the model that it was made from"


class Program(Model):
    """Standardised pictures to the file's answer."""

    sha256: Tensor  # of the file: two programs with one card are told apart by it

    def __init__(self, session: Any, card: Card, wish: Wish, sha256: bytes):
        super().__init__()
        self.session, self.card, self.wish, self.config = session, card, wish, card.model
        self.register_buffer("sha256", torch.frombuffer(bytearray(sha256), dtype=torch.uint8))

    def forward(self, images: Tensor) -> Tensor:
        pixels = self.wish.input == "pixels"
        given = pixels_of(images, self.card.preprocess) if pixels else images.float().cpu()
        # In int8 a batch shares its scales: alone, a picture's answer does not depend on its company.
        return torch.cat([self._run(some) for some in (given.split(1) if self.wish.precision == "int8" else [given])])

    def _run(self, given: Tensor) -> Tensor:
        try:
            (answer,) = self.session.run(None, {self.wish.input: np.ascontiguousarray(given.numpy())})
        except Exception as error:  # onnxruntime has a class of its own for every kind
            reason = str(error).partition("\n")[0]
            if "allocate memory" in reason or "bad_alloc" in reason:
                raise ResourceError(f"{len(given)} pictures do not fit the memory: choose a smaller --batch") from error
            raise ModelError(f"onnxruntime could not run it: {reason}") from error
        return torch.from_numpy(answer)

    def pair(self, images: Tensor) -> tuple[Tensor, Tensor]:
        logits = self(images)
        return logits, logits

    @property
    def shows(self) -> Shows:
        return "nothing"

    def represent(self, images: Tensor) -> NoReturn:
        raise UsageError(SILENT)

    def features(self, images: Tensor, at: Sequence[int]) -> NoReturn:
        raise UsageError(SILENT)

    def attention(self, images: Tensor, at: Sequence[int]) -> NoReturn:
        raise UsageError(SILENT)

    def gaze(self, images: Tensor) -> NoReturn:
        raise UsageError(SILENT)

    def evidence(self, images: Tensor, of: Tensor) -> NoReturn:
        raise UsageError(SILENT)

    def filters(self) -> NoReturn:
        raise UsageError(SILENT)

    def positions(self) -> NoReturn:
        raise UsageError(SILENT)
