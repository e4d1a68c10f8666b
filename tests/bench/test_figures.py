"""The two pictures are drawn from what was written as JSON."""

import io

import numpy as np
import pytest
from PIL import Image

from patchwords.bench import figures

ROW = {"model": "ViT-B/16", "precision": "bf16", "batch": 32, "image": [64, 64]}


def colours(png: bytes) -> int:
    with Image.open(io.BytesIO(png)) as picture:
        assert picture.width > 600
        return len(np.unique(np.asarray(picture.convert("RGB")).reshape(-1, 3), axis=0))


@pytest.mark.parametrize("memory", [1 << 30, None])
def test_growth(memory: int | None) -> None:
    rows = [
        ROW | {"bench": bench, "further": {"tokens": n}, "images_per_second": 1e6 / n, "memory": memory and memory * n}
        for n in (197, 577)
        for bench in ("inference", "training")
    ]
    assert colours(figures.growth({"rows": rows})) > 20


def test_learning() -> None:
    curves = {name: list(np.linspace(3, 1, 60)) for name in ("plain", "another seed", "fast")}
    assert colours(figures.learning({"rows": [ROW], "curves": curves})) > 20
