"""The model on the validation pictures: every one once, on any number of processes."""

from collections.abc import Generator

import numpy as np
import torch
from numpy.typing import NDArray

from patchwords.data.preprocess import Preprocess
from patchwords.evaluation.answers import Compute, ask
from patchwords.models.model import Model
from patchwords.speed.precision import Precision
from patchwords.training.distributed import World
from patchwords.training.signals import Wish
from patchwords.training.update import Loaded

Answers = tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.int64]]  # logits, labels, numbers in the source


@torch.inference_mode()
def answers(
    model: Model, pictures: Generator[Loaded], preprocess: Preprocess, precision: Precision, world: World, wish: Wish
) -> Answers | None:
    """The logits of all pictures in the order of their numbers, for every process; None when it was asked to stop."""
    model.eval()
    logits, labels, indices = [], [], []
    for loaded in pictures:
        if wish.number:
            break
        logits.append(ask(model, loaded.images, preprocess, Compute(device=world.device, precision=precision)))
        labels.append(loaded.labels.numpy())
        indices.append(loaded.indices)
    if world.most(wish.number):
        return None
    classes = model.config.classes
    mine = (
        torch.cat(logits).cpu().numpy() if logits else np.empty((0, classes), dtype=np.float32),
        np.concatenate([*labels, np.empty(0, dtype=np.int64)]),
        np.concatenate([*indices, np.empty(0, dtype=np.int64)]),
    )
    parts = world.gathered(mine)
    every, truth, numbers = (np.concatenate([part[i] for part in parts]) for i in range(3))
    order = np.argsort(numbers, kind="stable")
    return every[order], truth[order], numbers[order]
