"""Rounds of operations: in each, every picture of a batch undergoes one operation or none, and all are done by groups.

What happens to whom is decided on the CPU, before; the device hears it in two small copies and is never waited for.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from patchwords.data.augment import colour, geometry
from patchwords.ops.draws import Numbers

WIDTH = 7  # numbers a picture and round: a warp has six and a fill, a blur has seven

Columns = Sequence[Tensor]  # WIDTH times (batch,)
OPERATIONS: dict[str, Callable[[Tensor, Columns], Tensor]] = {
    "mirror": lambda x, n: geometry.mirror(x),
    "bilinear": lambda x, n: geometry.warp(x, n[:6], n[6], "bilinear"),
    "nearest": lambda x, n: geometry.warp(x, n[:6], n[6], "nearest"),
    "cover": lambda x, n: geometry.cover(x, n[4][:, None, None, None], *n[:4]),
    "invert": lambda x, n: colour.invert(x),
    "posterise": lambda x, n: colour.posterise(x, n[0]),
    "solarise": lambda x, n: colour.solarise(x, n[0]),
    "solarise-add": lambda x, n: colour.solarise_add(x, n[0]),
    "autocontrast": lambda x, n: colour.autocontrast(x),
    "equalise": lambda x, n: colour.equalise(x),
    "brightness": lambda x, n: colour.brightness(x, n[0]),
    "contrast": lambda x, n: colour.contrast(x, n[0]),
    "contrast-of-area": lambda x, n: colour.contrast_of_area(x, n[0]),
    "colour": lambda x, n: colour.colour(x, n[0]),
    "grey": lambda x, n: colour.grey(x),
    "hue": lambda x, n: colour.hue(x, n[0]),
    "sharpness": lambda x, n: colour.sharpness(x, n[0]),
    "blur": lambda x, n: colour.blur(x, *n),
}


@dataclass(frozen=True, slots=True)
class Round:
    """For every picture the name of its operation, or "identity", and the operation's numbers (batch, WIDTH)."""

    names: NDArray[np.str_]
    numbers: Numbers

    @classmethod
    def empty(cls, batch: int) -> "Round":
        """To be filled with `put`."""
        return cls(np.full(batch, "identity", dtype="U16"), np.zeros((batch, WIDTH)))

    def put(self, chosen: NDArray[np.int64], name: str, *columns: Numbers) -> None:
        """These pictures undergo this operation, with these numbers, each (chosen,)."""
        self.names[chosen] = name
        for place, column in enumerate(columns):
            self.numbers[chosen, place] = column

    def groups(self) -> Iterator[tuple[str, NDArray[np.int64], Numbers]]:
        """Each operation with its pictures and their numbers."""
        for name in sorted(set(self.names.tolist()) - {"identity"}):
            chosen = np.flatnonzero(self.names == name)
            yield name, chosen, self.numbers[chosen]


def fastest(device: torch.device, note: Callable[[str], None]) -> "Run":
    """The kernel where there is one for the device; its plain twin `run` else."""
    if device.type != "cuda":
        return run
    if find_spec("triton") is None:
        note("Triton is not installed: pictures are augmented group by group, which is slower")
        return run
    from patchwords.data.augment import rounds_triton  # which needs Triton

    return rounds_triton.run


def run(images: Tensor, rounds: Sequence[Round]) -> Tensor:
    """The pictures after all rounds, in a new tensor; whole numbers are levels of 255."""
    groups = [group for each in rounds for group in each.groups()]
    images = images.clone() if images.is_floating_point() else images / 255
    if not groups:
        return images
    names, chosen, numbers = zip(*groups, strict=True)
    counts = [len(indices) for indices in chosen]
    places = onto(np.concatenate(chosen), images).split(counts)
    columns = onto(np.concatenate(numbers).astype(np.float32), images).split(counts)
    for name, place, column in zip(names, places, columns, strict=True):
        changed = OPERATIONS[name](images.index_select(0, place), column.unbind(1))
        images.index_copy_(0, place, changed)
    return images


Run = Callable[[Tensor, Sequence[Round]], Tensor]


def onto(array: NDArray[np.generic], images: Tensor) -> Tensor:
    """A small array on the pictures' device; the copy is queued, not waited for."""
    return torch.from_numpy(array).to(images.device, non_blocking=True)
