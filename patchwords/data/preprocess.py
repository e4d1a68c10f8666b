"""How a picture becomes the model's input: one value, kept in the weights' card and used wherever pictures are read."""

from dataclasses import dataclass
from typing import Literal

from patchwords.errors import UsageError
from patchwords.settings import at_least, check

HALF = (0.5, 0.5, 0.5)  # the official models: [0, 255] to [-1, 1]

Interpolation = Literal["bilinear", "bicubic", "lanczos"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Preprocess:
    """Upright; to `size`; then (x - mean) / deviation.

    `squash` takes the whole picture, `crop` and `centre` the middle, that share `crop` of each side: one of the
    picture as it is, the other of the picture once it is squashed (the few-shot protocol).
    """

    size: tuple[int, int] = (224, 224)
    fit: Literal["squash", "crop", "centre"] = "squash"
    crop: float = 0.875
    interpolation: Interpolation = "bilinear"
    mean: tuple[float, ...] = HALF
    deviation: tuple[float, ...] = HALF
    orientation: Literal["upright", "stored"] = "upright"  # whether the camera's note (EXIF) is heeded

    def __post_init__(self) -> None:
        check(self)
        at_least(1, size=min(self.size))
        if len(self.mean) != len(self.deviation) or not self.mean:
            raise UsageError(
                f"mean has {len(self.mean)} numbers and deviation {len(self.deviation)}: one each a channel"
            )
        if not all(number > 0 for number in self.deviation):
            raise UsageError(f"deviation {list(self.deviation)} must be above 0")
        if not 0 < self.crop <= 1:
            raise UsageError(f"crop {self.crop} is not a share of the picture: choose one above 0 and up to 1")


# The customary statistics of ImageNet's colours, as torchvision uses them.
IMAGENET = Preprocess(fit="crop", mean=(0.485, 0.456, 0.406), deviation=(0.229, 0.224, 0.225))
