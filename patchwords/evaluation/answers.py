"""What a model says of pictures: its logits or its vectors, every picture asked once."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from patchwords.data.broken import Broken
from patchwords.data.loader import Loading, Prepare, scored
from patchwords.data.preprocess import Preprocess
from patchwords.data.sources.source import Source
from patchwords.data.transforms import normalise
from patchwords.errors import DataError, ResourceError
from patchwords.speed.precision import Precision, autocast

CPU = torch.device("cpu")
Progress = Callable[[int, int], None]


@dataclass(frozen=True, kw_only=True)
class Compute:
    """Where and how a model is asked: so many pictures at a time, decoded by other processes where that pays."""

    device: torch.device = CPU
    precision: Precision = "float32"
    batch: int = 64
    loading: Loading = field(default_factory=Loading)


@dataclass(frozen=True, kw_only=True)
class Answers:
    """The outputs for all pictures that could be read, in the order of the source."""

    outputs: NDArray[np.float32]  # (n, classes or width)
    labels: NDArray[np.int64]
    indices: NDArray[np.int64]  # the pictures' numbers in the source
    sizes: NDArray[np.int64]  # (n, 2): height and width of the files, upright


@torch.inference_mode()
def ask(
    function: Callable[[Tensor], Tensor], images: NDArray[Any] | Tensor, preprocess: Preprocess, compute: Compute
) -> Tensor:
    """The outputs for a batch of uint8 pictures, as float32 on the device."""
    pixels = torch.from_numpy(images) if isinstance(images, np.ndarray) else images
    inputs = normalise(pixels.to(compute.device, non_blocking=True), preprocess)
    try:
        with autocast(compute.precision, compute.device):
            return function(inputs).float()
    except torch.OutOfMemoryError as error:
        raise ResourceError(
            f"{len(images)} pictures of {preprocess.size[0]}x{preprocess.size[1]} do not fit the memory of "
            f"{compute.device}: choose a smaller --batch"
        ) from error


def answers(
    function: Callable[[Tensor], Tensor],
    source: Source,
    preprocess: Preprocess,
    channels: int,
    compute: Compute,
    broken: Broken,
    progress: Progress,
) -> Answers:
    """`function` (a model, or its `represent`) asked about every picture of a source; broken ones are left out."""
    work, every = Prepare(source, preprocess, channels), np.arange(len(source))
    outputs: NDArray[np.float32] | None = None  # one block, filled as it comes: parts to join would need it twice
    parts, done, kept = [], 0, 0
    for pictures in scored(work, every, compute.batch, compute.loading, broken):
        done += len(pictures.labels) + len(pictures.damages)
        if len(pictures.labels):
            said = ask(function, pictures.images, preprocess, compute).cpu().numpy()
            outputs = np.empty((len(source), said.shape[1]), dtype=np.float32) if outputs is None else outputs
            outputs[kept : kept + len(said)] = said
            kept += len(said)
            parts.append((pictures.labels, pictures.indices, pictures.sizes))
        progress(done, len(source))
    if outputs is None:
        raise DataError("none of the pictures can be read: look at them with `patchwords check`")
    labels, indices, sizes = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Answers(outputs=outputs[:kept], labels=labels, indices=indices, sizes=sizes)
