"""A run of ours, step by step."""

from pathlib import Path

import numpy as np
import torch

from patchwords.bench.made import photographs
from patchwords.bench.run import begun, of_files, of_source
from patchwords.data.sources.arrays import Arrays

CPU = torch.device("cpu")


def test_files_keep_their_classes(tmp_path: Path) -> None:
    data = of_files(photographs(tmp_path / "here", 6, 3))
    assert data.classes == ("class-0000", "class-0001", "class-0002")
    assert len(data.train) == 6
    for index in range(6):
        assert data.train.name(index).startswith(data.classes[data.train.labels[index]])


def test_steps_learn(heard: list[str]) -> None:
    labels = np.arange(32) % 2
    pixels = np.broadcast_to((80 + 90 * labels)[:, None, None, None], (32, 8, 8, 3)).astype(np.uint8)
    changes = {"model": "ViT-Mu/4", "image": 8, "batch": 16, "optimizer.lr": 3e-3, "data.crop.kind": "whole"}
    run = begun(of_source("made", ("dark", "light"), Arrays(pixels, labels, "train")), changes, CPU, heard.append)
    losses = [float(run.step(loaded, number)) for number, loaded in enumerate(run.parts.feed.batches(0, 30))]
    assert losses[-1] < 0.5 * losses[0]
