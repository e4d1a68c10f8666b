"""Decoded pictures that stay in memory, on the host or on the device, and are cut there at the same addresses."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from patchwords.data import workers
from patchwords.data.broken import Broken
from patchwords.data.glimpses import Part, numbered
from patchwords.data.loader import CHUNK, Loading, Prepare
from patchwords.data.order import Indices
from patchwords.data.preprocess import Preprocess
from patchwords.data.sources.source import Labels, Source
from patchwords.data.transforms import CropKind, PaddedCrop, RandomCrop, WholeCrop, boxes, cut_stack, shifted
from patchwords.errors import DataError, ResourceError

PIECE = 256  # pictures that are cut at a time: in between they are four times as large
MARGIN = 8 / 7  # what will be cut is kept larger than it is shown: 256 pixels for 224


@dataclass(frozen=True)
class Held:
    """The readable pictures of a source in one tensor, uint8 (n, channels, height, width), by their numbers there."""

    images: Tensor
    labels: Labels
    sizes: NDArray[np.int64]  # as they were in the source
    indices: Indices

    def rows(self, indices: Indices) -> Indices:
        """Where these pictures are held; a broken one is replaced by the next that is not."""
        if self.indices[-1] == len(self.indices) - 1:  # none is missing among them
            return indices % len(self.indices)
        return np.searchsorted(self.indices, indices) % len(self.indices)

    def take(self, rows: Indices, device: torch.device) -> Tensor:
        place = torch.from_numpy(rows).to(self.images.device, non_blocking=True)
        return self.images[place].to(device, non_blocking=True)

    def cut(
        self,
        crop: CropKind,
        preprocess: Preprocess,
        device: torch.device,
        *,
        seed: int,
        views: Indices,
        indices: Indices,
    ) -> Tensor:
        """These pictures as training sees them, uint8 on the device."""
        part = Part("image", 1, crop, preprocess.size)
        crops = self.crops([part], preprocess, device, seed=seed, views=views, indices=indices)
        return crops["image"][:, 0]

    def crops(
        self,
        parts: Sequence[Part],
        preprocess: Preprocess,
        device: torch.device,
        *,
        seed: int,
        views: Indices,
        indices: Indices,
    ) -> dict[str, Tensor]:
        """Several crops of each picture, by part: (n, crops, channels, height, width)."""
        rows = self.rows(indices)
        stack = self.take(rows, device)
        found = {}
        for part in parts:
            every = [self._cut(stack, part, preprocess, rows, seed, numbered(views, n), indices) for n in part.numbers]
            found[part.name] = every[0][:, None] if len(every) == 1 else torch.stack(every, 1)
        return found

    def _cut(
        self,
        stack: Tensor,
        part: Part,
        preprocess: Preprocess,
        rows: Indices,
        seed: int,
        views: Indices,
        indices: Indices,
    ) -> Tensor:
        """One crop of each; what is only shifted moves by whole pixels, since it is held as it is seen."""
        if isinstance(part.crop, WholeCrop):
            return stack
        held = preprocess if isinstance(part.crop, RandomCrop) else _squashed(preprocess)
        sizes = self.sizes[rows] if isinstance(part.crop, RandomCrop) else np.tile(np.array(held.size), (len(rows), 1))
        places = boxes(part.crop, sizes, held, seed=seed, views=views, indices=indices)
        if isinstance(part.crop, PaddedCrop):
            return shifted(stack, places[:, :2], part.crop.pixels)
        shares = places / np.tile(sizes, 2)
        pieces = zip(stack.split(PIECE), np.array_split(shares, range(PIECE, len(shares), PIECE)), strict=True)
        return torch.cat([cut_stack(*piece, part.size, preprocess.interpolation) for piece in pieces])


@lru_cache(maxsize=4)
def _squashed(preprocess: Preprocess) -> Preprocess:
    return replace(preprocess, fit="squash")


def hold(
    source: Source,
    crop: CropKind | None,
    preprocess: Preprocess,
    channels: int,
    device: torch.device,
    loading: Loading,
    broken: Broken,
    progress: Callable[[int, int], None],
) -> Held:
    """Decodes a whole source once: as evaluation sees it, or squashed and a little larger where it will be cut."""
    if isinstance(crop, RandomCrop):
        height, width = (round(side * MARGIN) for side in preprocess.size)
        preprocess = replace(preprocess, fit="squash", size=(height, width))
    images = _room(len(source), channels, preprocess.size, device)
    work = Prepare(source, preprocess, channels)
    every = np.arange(len(source))
    tasks = (every[start : start + CHUNK] for start in range(0, len(source), CHUNK))
    labels, sizes, indices, done = [], [], [], 0
    processes = loading.processes(source)
    for pictures in workers.ordered(
        work, tasks, workers=processes, timeout=loading.timeout, note=broken.note, room=work.room
    ):  # no name for it: an error's traceback would keep the processes alive
        broken.add(pictures.damages)
        images[done : done + len(pictures.labels)] = torch.from_numpy(pictures.images).to(device)
        done += len(pictures.labels)
        labels.append(pictures.labels)
        sizes.append(pictures.sizes)
        indices.append(pictures.indices)
        progress(done, len(source))
    if not done:
        raise DataError("none of the pictures can be read")
    return Held(images[:done], np.concatenate(labels), np.concatenate(sizes), np.concatenate(indices))


def _room(count: int, channels: int, size: tuple[int, int], device: torch.device) -> Tensor:
    needed = count * channels * size[0] * size[1]
    try:
        return torch.empty(count, channels, *size, dtype=torch.uint8, device=device)
    except (torch.OutOfMemoryError, RuntimeError, MemoryError) as error:
        raise ResourceError(
            f"{count} decoded pictures need {needed:,} bytes on {device}, more than there are: "
            "set data.cache to memory or none"
        ) from error
