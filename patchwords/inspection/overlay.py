"""Figure 6: a picture that stays bright where the model looks and goes dark elsewhere."""

import numpy as np
from numpy.typing import NDArray
from PIL import Image

DARK = 0.15  # what is left of the light where the mask is 0, so that the scene can still be made out
FLAT = 1e-5  # a mask that varies by less is the same everywhere

Mask = NDArray[np.float32]


def mask(map: NDArray[np.floating], size: tuple[int, int], radius: float | None = None) -> Mask:
    """A map (rows, cols) for a picture of `size` (height, width), from 0 to 1.

    It is divided by its maximum, resized (Lanczos), blurred by a Gaussian, and scaled to the range from 0 to 1. The
    radius (standard deviation) of the blur is one patch unless it is given, in pixels. A map of zeros stays one, and
    one that is the same everywhere hides nothing.
    """
    peak = map.max()
    if peak <= 0:
        return np.zeros(size, dtype=np.float32)
    tall, wide = (_spread(*side, radius) for side in zip(map.shape, size, strict=True))
    smooth = tall @ (map / peak) @ wide.T  # resizing and blurring are linear, one side at a time
    low, high = smooth.min(), smooth.max()
    if high - low < FLAT:
        return np.ones(size, dtype=np.float32)
    return np.asarray((smooth - low) / (high - low), dtype=np.float32)


def _spread(cells: int, pixels: int, radius: float | None) -> NDArray[np.float64]:
    """What each cell of a line becomes when the line is resized and blurred: (pixels, cells)."""
    unit = Image.fromarray(np.eye(cells, dtype=np.float32))
    lines = np.asarray(unit.resize((pixels, cells), Image.Resampling.LANCZOS), dtype=np.float64)  # (cells, pixels)
    deviation = pixels / cells if radius is None else radius
    reach = int(np.ceil(4 * deviation))  # beyond it the Gaussian is nothing
    kernel = np.exp(-0.5 * (np.arange(-reach, reach + 1) / max(deviation, 1e-9)) ** 2)
    padded = np.pad(lines, ((0, 0), (reach, reach)), mode="edge")
    return np.stack([np.convolve(line, kernel / kernel.sum(), "valid") for line in padded], 1)


def overlay(pixels: NDArray[np.uint8], mask: Mask) -> NDArray[np.uint8]:
    """The picture (height, width, 3) with the mask (height, width) as its light."""
    light = DARK + (1 - DARK) * mask[..., None]
    return np.asarray(np.rint(pixels * light), dtype=np.uint8)
