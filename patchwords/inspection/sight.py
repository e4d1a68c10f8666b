"""Where a model looks in a picture, by whatever it can tell: its attention, or the evidence for a class."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from patchwords.errors import UsageError
from patchwords.inspection.rollout import attention_map
from patchwords.models.model import Model


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Sight:
    """A map for each picture, none of its values negative, and what it is a map of."""

    maps: NDArray[np.float32]  # (batch, rows, cols)
    kind: Literal["rollout", "evidence"]


@torch.no_grad()
def sight(model: Model, images: Tensor, of: Tensor | None = None) -> Sight:
    """Where the model looks in pictures (batch, channels, height, width).

    Attention rollout is of the output as a whole; evidence is for the predicted classes, or for those in `of` (batch).
    """
    match model.shows:
        case "gaze":
            return Sight(maps=_array(attention_map(model, images)), kind="rollout")
        case "evidence":
            return Sight(maps=_array(_evidence(model, images, of)), kind="evidence")
        case "nothing":
            raise UsageError(
                "this model cannot show where it looks: it has no attention between all tokens, "
                "and no logits that are sums over places"
            )


def _evidence(model: Model, images: Tensor, of: Tensor | None) -> Tensor:
    """What speaks for the class; what speaks against it is cut off, as in Grad-CAM (Selvaraju et al., 2017)."""
    classes = model(images).argmax(1) if of is None else of.to(images.device)
    return model.evidence(images, classes).relu()


def _array(maps: Tensor) -> NDArray[np.float32]:
    array: NDArray[np.float32] = maps.float().cpu().numpy()
    return array
