"""The families of the parity table in docs/export.md, in their real sizes; with -s the table's rows are printed."""

import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from patchwords.export.export import export
from patchwords.export.parity import BATCHES
from patchwords.export.read import open_program
from patchwords.models.build import build
from patchwords.speed.prepare import ready
from patchwords.weights.card import Card, fitted
from patchwords.weights.subject import Subject

NAMES = ["ViT-S/16", "ViT-B/16", "DeiT-S/16-distilled", "BEiT-B/16", "Swin-T", "R26+ViT-S/32", "BiT-R50x1", "ViT-L/16"]
TURNS = 8


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_each_family_says_in_onnx_what_it_says_in_torch(name: str, randomised, tmp_path: Path) -> None:
    model = randomised(build(name)).eval()
    subject = Subject(name, model, fitted(Card(model=model.config, source="noise"), model.config, ()))
    done = export(subject, tmp_path / "model.onnx")
    assert [each.batch for each in done.parity.batches] == list(BATCHES)
    assert done.parity.difference <= done.parity.allowed
    assert done.bytes < 1 << 31
    largest = done.parity.allowed / 1e-4
    ready_model = ready(model, device=torch.device("cpu"), precision="float32")
    says = (ready_model, open_program(done.path).model)
    times = [taken(says, batch) for batch in (1, 8)]
    numbers = " | ".join(f"{each[which]:.0f}" for which in (0, 1) for each in times)
    print(
        f"\n| {name} | {done.parity.difference:.1e} | {largest:.1f} | {100 * done.parity.agreement:.0f} % | "
        f"{done.bytes / 1e6:.0f} MB | {numbers} |"
    )


@torch.inference_mode()
def taken(says: Sequence[Callable[[Tensor], Tensor]], batch: int) -> list[float]:
    """Milliseconds a picture of each, in turns, the best of all turns."""
    images = torch.from_numpy(np.random.default_rng(0).standard_normal((batch, 3, 224, 224), dtype=np.float32))
    best = [math.inf] * len(says)
    for _ in range(TURNS):
        for number, each in enumerate(says):
            start = time.perf_counter()
            each(images)
            best[number] = min(best[number], time.perf_counter() - start)
    return [1000 * seconds / batch for seconds in best]
