"""The last steps from pictures to the model's input, on the device and on the whole batch."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import torch
from torch import Tensor

from patchwords.data.augment.augment import Augment, augment, erase
from patchwords.data.augment.rounds import Run, run
from patchwords.data.glimpses import FIRST, Glimpses, numbered
from patchwords.data.mix import Mix, mix
from patchwords.data.order import Indices
from patchwords.data.preprocess import Preprocess
from patchwords.data.transforms import standardise


@dataclass(frozen=True)
class Finish:
    """uint8 pictures to a batch: augmented, normalised, erased, mixed; every draw at its address."""

    augment: Augment
    mix: Mix
    preprocess: Preprocess
    classes: int
    seed: int
    glimpses: Glimpses = Glimpses()  # noqa: RUF009 (a frozen value)
    run: Run = run  # who does the rounds of operations

    @property
    def gives(self) -> tuple[str, ...]:
        """The keys of a batch."""
        return ("image", "target", *self.glimpses.gives)

    def __call__(
        self,
        images: Tensor,
        labels: Tensor,
        *,
        indices: Indices,
        views: Indices,
        step: int,
        progress: float,
        further: Mapping[str, Tensor] = MappingProxyType({}),
    ) -> dict[str, Tensor]:
        """`further` are other crops, (batch, crops, …) by part; to the large ones the first is added."""
        x = self._shown(images, indices, views)
        crops = {name: self._crops(name, stack, indices, views) for name, stack in further.items()}
        if self.glimpses.gives:
            crops["large"] = torch.cat([x[:, None], crops["large"]], 1) if "large" in crops else x[:, None]
        target = targets(labels, self.classes)
        x, target = mix(x, target, self.mix, seed=self.seed, step=step, progress=progress)
        return {"image": x, "target": target, **crops}

    def _shown(self, images: Tensor, indices: Indices, views: Indices) -> Tensor:
        x = augment(images, self.augment, seed=self.seed, views=views, indices=indices, run=self.run)
        x = standardise(x, self.preprocess)
        return erase(x, self.augment.erase, seed=self.seed, views=views, indices=indices)

    def _crops(self, part: str, stack: Tensor, indices: Indices, views: Indices) -> Tensor:
        """All crops of a part at once, each with draws of its own."""
        count = stack.shape[1]
        own = numbered(views[:, None], FIRST[part] + np.arange(count)).reshape(-1)
        return self._shown(stack.flatten(0, 1), np.repeat(indices, count), own).unflatten(0, (-1, count))


def targets(labels: Tensor, classes: int) -> Tensor:
    """Labels as shares of one: (batch, classes)."""
    return (labels[:, None] == torch.arange(classes, device=labels.device)).float()
