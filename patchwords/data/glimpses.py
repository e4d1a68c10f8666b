"""Multi-crop (Caron et al., 2020): several crops of a picture at a time, some as large as the first, some small.

A crop's address is that of its sample with another view: the number of the crop stands in the high bits, 0 for the
first, so that every draw that a view decides (its box, its flip, its colours) is another one for each crop.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from patchwords.data.order import Indices
from patchwords.data.picture import Size
from patchwords.data.transforms import CropKind, RandomCrop
from patchwords.errors import UsageError
from patchwords.settings import at_least, check

NUMBER = 40  # the bit of a view where the number of a crop begins: nobody shows a picture so often
FIRST = {"image": 0, "large": 1, "small": 1 << 12}  # the number of the first crop of each part


class Part(NamedTuple):
    """Crops of one size that every picture gets."""

    name: str
    crops: int
    crop: CropKind
    size: Size

    @property
    def numbers(self) -> NDArray[np.int64]:
        return FIRST[self.name] + np.arange(self.crops)


@dataclass(frozen=True, kw_only=True, slots=True)
class Glimpses:
    """So many further crops of each picture: `large` ones like the first, and `small` ones of a `size` of their own."""

    large: int = 0
    small: int = 0
    scale: tuple[float, ...] = (0.05, 0.4)  # of the small ones; that of the large ones is the crop's
    size: tuple[int, int] = (96, 96)

    def __post_init__(self) -> None:
        check(self)
        at_least(0, large=self.large, small=self.small)
        at_least(1, size=min(self.size))
        if max(self.large, self.small) >= FIRST["small"]:
            raise UsageError(f"{max(self.large, self.small)} crops of a picture are too many: choose a few")
        RandomCrop(scale=self.scale)  # which refuses what is no share

    @property
    def gives(self) -> tuple[str, ...]:
        """The keys that a batch has for them; the large ones are there with the first."""
        return (*["large"] * (self.large + self.small > 0), *["small"] * (self.small > 0))

    def expect(self, crop: CropKind, *, mixed: bool) -> None:
        """Refuses a crop of which there is only one, and mixing, which would change the first crop alone."""
        if self.gives and not isinstance(crop, RandomCrop):
            raise UsageError(f'crop "{crop.kind}" shows one part of a picture: for glimpses choose crop "random"')
        if self.gives and mixed:
            raise UsageError("glimpses are not mixed with other pictures: set mix.mixup and mix.cutmix to 0")

    def parts(self, crop: CropKind, size: Size) -> list[Part]:
        """All crops of a picture, the first included."""
        large, small = Part("large", self.large, crop, size), Part("small", self.small, self._little, self.size)
        return [Part("image", 1, crop, size), *(part for part in (large, small) if part.crops)]

    def pictures(self, size: Size) -> float:
        """How many pictures of this size all crops of one amount to, the first included: by their pixels."""
        (height, width), (tall, wide) = size, self.size
        return 1 + self.large + self.small * (tall * wide) / (height * width)

    @property
    def _little(self) -> RandomCrop:
        return RandomCrop(scale=self.scale)


def numbered(views: Indices, numbers: int | NDArray[np.int64]) -> Indices:
    """The views of crops with these numbers; those of the first are the sample's own."""
    return views + (np.asarray(numbers, dtype=np.int64) << NUMBER)


def kinds(views: Indices) -> NDArray[np.int64]:
    """What each view is of: 0 for the first crop, 1 for another large one, 2 for a small one."""
    number = views >> NUMBER
    return (number >= FIRST["large"]).astype(np.int64) + (number >= FIRST["small"])
