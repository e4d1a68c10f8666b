"""Pictures that were read and checked, and that the device will decode and cut."""

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from patchwords.data import loader
from patchwords.data.broken import Damage
from patchwords.data.decoder import Decoder
from patchwords.data.loader import Cut
from patchwords.data.order import Indices
from patchwords.data.picture import MIRRORED, SIDEWAYS, UPSIDE_DOWN, Picture
from patchwords.data.sources.source import Labels, Pixels
from patchwords.data.stack import Boxes, regions

USUAL = 1 << 19  # bytes of a picture that there is room for
LEAST = 32  # pixels of a side: in smaller pictures the ways to enlarge the colours of 4:2:0 differ too much


class Uncut(NamedTuple):
    """Some pictures, and where each will be cut; those that only Pillow can decode are cut already."""

    contents: list[Pixels | None]  # a file (bytes,), or the pixels that matter of it (height, width, 3)
    crops: list[list[Pixels] | None]  # of those that are cut
    boxes: list[Boxes]  # (n, 4) for every crop, upright, in the pixels of the content
    turns: NDArray[np.int64]  # the camera's notes, where they are still to be heeded
    used: Indices  # the number of the picture that stands for each
    labels: Labels
    indices: Indices
    views: Indices
    damages: list[Damage]


@dataclass(frozen=True)
class Collect:
    """Reads and checks pictures as `Cut` does, and leaves the common ones undone, as files or as pixels."""

    cut: Cut
    decoder: Decoder

    @property
    def room(self) -> int:
        """The bytes that most pictures take; what is larger travels too, and slower."""
        return max(self.cut.room, loader.CHUNK * USUAL)

    def __call__(self, task: tuple[Indices, Indices]) -> Uncut:
        indices, views = task
        damages: list[Damage] = []
        found = [self.cut.readable(int(index), damages) for index in indices]
        sizes = np.array([picture.size for _, _, picture in found], dtype=np.int64)
        places = self.cut.places(sizes, views, indices)
        used = np.array([index for index, _, _ in found], dtype=np.int64)
        turns = np.array([self._turn(picture) for _, _, picture in found], dtype=np.int64)
        contents: list[Pixels | None] = []
        crops: list[list[Pixels] | None] = []
        for place, (index, raw, picture) in enumerate(found):
            boxes = [crop[place] for crop in places]
            contents.append(self._content(raw, picture, boxes))
            crops.append(None)
            if contents[place] is None:
                crops[place], used[place] = self.cut.crops(index, raw, boxes, damages)
        labels = self.cut.source.labels[used]
        return Uncut(contents, crops, places, turns, used, labels, indices, views, damages)

    def _turn(self, picture: Picture) -> int:
        """What is left to turn: pixels are sent upright."""
        heeded = self.decoder == "nvjpeg" and self.cut.preprocess.orientation == "upright"
        return picture.turn if heeded else 1

    def _content(self, raw: bytes | Pixels, picture: Picture, boxes: Sequence[NDArray[np.float64]]) -> Pixels | None:
        """What to send of a picture; nothing where Pillow must decode."""
        if not (isinstance(raw, bytes) and picture.common and min(picture.size) >= LEAST):
            return None
        if self.decoder == "nvjpeg":
            return np.array(np.frombuffer(raw, dtype=np.uint8))  # one that may be written to, as torch wants it
        pixels = _decoded(raw)
        return None if pixels is None else self._region(self._upright(pixels, picture.turn), boxes)

    def _upright(self, pixels: Pixels, turn: int) -> Pixels:
        if self.cut.preprocess.orientation == "stored":
            return pixels
        turned = pixels.swapaxes(0, 1) if turn in SIDEWAYS else pixels
        return turned[:: -1 if turn in UPSIDE_DOWN else 1, :: -1 if turn in MIRRORED else 1]

    def _region(self, pixels: Pixels, boxes: Sequence[NDArray[np.float64]]) -> Pixels:
        """The part that the boxes take; they move with it."""
        sides = np.array([pixels.shape[:2]])
        every = [
            regions(box[None], sides, size, self.cut.preprocess.interpolation)
            for box, size in zip(boxes, self.cut.wanted, strict=True)
        ]
        top, left = np.min([each.start[0] for each in every], 0).tolist()
        bottom, right = np.max([each.stop[0] for each in every], 0).tolist()
        for box in boxes:
            box -= (top, left, top, left)
        return np.ascontiguousarray(pixels[top:bottom, left:right])


def together(parts: Sequence[Uncut]) -> Uncut:
    """All of them in one, without copying a picture."""
    contents, crops, damages = (list(chain.from_iterable(part[i] for part in parts)) for i in (0, 1, 8))
    boxes = [np.concatenate(crop) for crop in zip(*(part.boxes for part in parts), strict=True)]
    turns, used, labels, indices, views = (np.concatenate([part[i] for part in parts]) for i in range(3, 8))
    return Uncut(contents, crops, boxes, turns, used, labels, indices, views, damages)


def _decoded(raw: bytes) -> Pixels | None:
    """By libjpeg-turbo without a detour; None for what it refuses, of which Pillow tells the reason."""
    try:
        pixels: Pixels = importlib.import_module("simplejpeg").decode_jpeg(raw)
        return pixels
    except ValueError:
        return None
