"""A picture as the model saw it, for people: in colours that can be shown, at a size, and with where it looked."""

import numpy as np
from PIL import Image

from patchwords.data.sources.source import Pixels
from patchwords.data.thumbnail import TINY
from patchwords.inspection.overlay import mask, overlay
from patchwords.serve.prediction import Kind, Prediction

SAYS: dict[Kind, str] = {"rollout": "where it looked", "evidence": "what speaks for {}"}


def views(prediction: Prediction, side: int) -> dict[str, Pixels]:
    """What was kept of a picture (height, width, 3), by what it is: itself, and with the overlay of figure 6."""
    if prediction.pixels is None:
        return {}
    pixels = fitted(prediction.pixels, side)
    found = {"as the model sees it": pixels}
    if prediction.attention is not None:
        light = mask(prediction.attention, (pixels.shape[0], pixels.shape[1]))
        found[SAYS[prediction.kind].format(prediction.label)] = overlay(pixels, light)
    return found


def fitted(pixels: Pixels, side: int) -> Pixels:
    """With the longer side so many pixels; each pixel of a tiny picture becomes a square, so that it can be seen."""
    visible = pixels[:, :, :3] if pixels.shape[2] >= 3 else np.repeat(pixels[:, :, :1], 3, axis=2)
    longest = max(visible.shape[:2])
    if longest <= min(TINY, side):
        return visible.repeat(side // longest, axis=0).repeat(side // longest, axis=1)
    height, width = (max(1, round(length * side / longest)) for length in visible.shape[:2])
    image = Image.fromarray(np.ascontiguousarray(visible))
    return np.asarray(image.resize((width, height), Image.Resampling.LANCZOS))
