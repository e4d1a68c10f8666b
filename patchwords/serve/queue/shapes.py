"""How many pictures a model is asked about at a time, where every new number costs a recording or a compilation."""

from collections.abc import Sequence

import numpy as np

from patchwords.data.sources.source import Pixels
from patchwords.serve.prediction import Prediction
from patchwords.serve.predictor import Predictor

CALLED = "picture"


class Shapes:
    """A predictor that is asked about powers of two on a GPU or compiled, and about any number otherwise."""

    def __init__(self, predictor: Predictor):
        self.predictor = predictor
        self.few = predictor.compute.device.type == "cuda" or predictor.manner.compiled

    def answer(self, images: Sequence[Pixels]) -> list[Prediction]:
        """To fill up, the last picture is asked about again."""
        count = len(images)
        filled = [*images, *[images[-1]] * (self._next(count) - count)]
        return self.predictor.answer([CALLED] * len(filled), np.stack(filled))[:count]

    def numbers(self, most: int) -> list[int]:
        """All that there will be, for warming up; of any number, the least and the most."""
        return sorted({self._next(count) for count in range(1, most + 1)}) if self.few else sorted({1, most})

    def _next(self, count: int) -> int:
        return 1 << (count - 1).bit_length() if self.few else count
