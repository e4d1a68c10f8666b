"""The last steps from pictures to the model's input, on the device and on the whole batch."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from patchwords.data.augment.augment import Augment, augment, erase
from patchwords.data.mix import Mix, mix
from patchwords.data.order import Indices
from patchwords.data.preprocess import Preprocess
from patchwords.data.transforms import standardise


@dataclass(frozen=True)
class Finish:
    """uint8 pictures to a batch: augmented, normalised, erased, mixed; every draw at its address."""

    gives: ClassVar[tuple[str, ...]] = ("image", "target")  # the keys of a batch
    augment: Augment
    mix: Mix
    preprocess: Preprocess
    classes: int
    seed: int

    def __call__(
        self, images: Tensor, labels: Tensor, *, indices: Indices, views: Indices, step: int, progress: float
    ) -> dict[str, Tensor]:
        x = images.float() / 255  # (batch, channels, height, width)
        x = augment(x, self.augment, seed=self.seed, views=views, indices=indices)
        x = standardise(x, self.preprocess)
        x = erase(x, self.augment.erase, seed=self.seed, views=views, indices=indices)
        target = (labels[:, None] == torch.arange(self.classes, device=labels.device)).float()  # (batch, classes)
        x, target = mix(x, target, self.mix, seed=self.seed, step=step, progress=progress)
        return {"image": x, "target": target}
