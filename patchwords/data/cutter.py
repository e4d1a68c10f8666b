"""Decodes and cuts whole batches on the device: what `patchwords.data.uncut` has collected."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from patchwords.data import nvjpeg
from patchwords.data.broken import Damage
from patchwords.data.loader import Cut
from patchwords.data.picture import MIRRORED, SIDEWAYS, UPSIDE_DOWN
from patchwords.data.sources.source import Pixels
from patchwords.data.stack import CutPictures, fastest
from patchwords.data.transfer import onto
from patchwords.data.uncut import Uncut
from patchwords.errors import ResourceError


@dataclass
class Cutter:
    """For one `Cut`; pictures that the device refuses are decoded here, by Pillow."""

    cut: Cut
    device: torch.device
    note: Callable[[str], None]
    refused: bool = field(default=False, init=False)
    cut_pictures: CutPictures = field(init=False)

    def __post_init__(self) -> None:
        self.cut_pictures = fastest(self.device, self.note)

    def __call__(self, uncut: Uncut) -> tuple[dict[str, Tensor], list[Damage]]:
        """All crops by part, uint8 (n, crops, channels, height, width); what is replaced gets another label."""
        try:
            return self._cut(uncut)
        except torch.OutOfMemoryError as error:
            raise ResourceError(
                f"out of memory while {len(uncut.used)} pictures were decoded on {self.device}: "
                "set data.decoder to pillow, or micro to fewer"
            ) from error

    def _cut(self, uncut: Uncut) -> tuple[dict[str, Tensor], list[Damage]]:
        damages: list[Damage] = []
        pictures = self._pictures(uncut)
        for place, (picture, content) in enumerate(zip(pictures, uncut.contents, strict=True)):
            if picture is None and content is not None:
                self._refuse()
                boxes = [crop[place] for crop in uncut.boxes]
                uncut.crops[place], used = self.cut.crops(int(uncut.used[place]), content.tobytes(), boxes, damages)
                uncut.labels[place] = self.cut.source.labels[used]
        crops = [self._crop(number, pictures, uncut) for number in range(len(uncut.boxes))]
        return self.cut.by_part(crops, torch.stack), damages

    def _crop(self, number: int, pictures: Sequence[Tensor | None], uncut: Uncut) -> Tensor:
        """One crop of all pictures."""
        late = [place for place, picture in enumerate(pictures) if picture is None]
        soon = [place for place, picture in enumerate(pictures) if picture is not None]
        found = []
        if soon:
            here = [picture for picture in pictures if picture is not None]
            size, interpolation = self.cut.wanted[number], self.cut.preprocess.interpolation
            found.append(self.cut_pictures(here, uncut.boxes[number][soon], size, interpolation))
        if late:
            found.append(onto([crops[number][None] for crops in uncut.crops if crops is not None], self.device))
        if not (soon and late):
            return found[0]
        order = torch.tensor(np.argsort(soon + late))
        return torch.cat(found)[order.to(self.device)]

    def _pictures(self, uncut: Uncut) -> list[Tensor | None]:
        """(channels, height, width) each, upright, on the device; None for what is cut, or was refused."""
        places = [place for place, content in enumerate(uncut.contents) if content is not None]
        contents = [content for content in uncut.contents if content is not None]
        found: list[Tensor | None] = [None] * len(uncut.contents)
        given = self._decoded(contents) if contents and contents[0].ndim == 1 else self._sent(contents)
        for place, picture in zip(places, given, strict=True):
            found[place] = None if picture is None else _turned(picture, int(uncut.turns[place]))
        return found

    def _decoded(self, files: Sequence[Pixels]) -> list[Tensor | None]:
        return nvjpeg.decode([torch.from_numpy(file) for file in files], self.device)

    def _sent(self, pixels: Sequence[Pixels]) -> Sequence[Tensor]:
        """Decoded pictures on the device, in one copy."""
        if not pixels:
            return []
        whole = onto([each.reshape(-1) for each in pixels], self.device)
        every = zip(whole.split([each.size for each in pixels]), pixels, strict=True)
        return [flat.view(each.shape).permute(2, 0, 1) for flat, each in every]

    def _refuse(self) -> None:
        if not self.refused:
            self.note("some JPEG files are refused by the GPU, and decoded by Pillow")
        self.refused = True


def _turned(picture: Tensor, turn: int) -> Tensor:
    """Made upright by the camera's note."""
    upright = picture.mT if turn in SIDEWAYS else picture
    flipped = [axis for axis, turns in ((1, UPSIDE_DOWN), (2, MIRRORED)) if turn in turns]
    return upright.flip(flipped) if flipped else upright
