"""The page of reconstructions: three pictures a row, none cut off, whatever the files are called."""

import io

import numpy as np
import pytest
from PIL import Image

from patchwords.inspection.figures.reconstructions import Restored, reconstructions

RED, GREEN, BLUE = (np.eye(3) * 255).astype(np.uint8)


def page(name: str, rows: int, shape: tuple[int, int], heading: str = "a run") -> Image.Image:
    looks = [np.broadcast_to(colour, (*shape, 3)) for colour in (RED, GREEN, BLUE)]
    restored = Restored(original=looks[0], masked=looks[1], reconstructed=looks[2], name=name)
    data = reconstructions([restored] * rows, heading=heading, below="seed 0")
    return Image.open(io.BytesIO(data)).convert("RGB")


@pytest.mark.parametrize("shape", [(8, 8), (224, 224), (32, 96)])
@pytest.mark.parametrize("rows", [1, 3])
def test_every_picture_is_there_three_times_in_order(rows: int, shape: tuple[int, int]) -> None:
    pixels = np.asarray(page("a.png", rows, shape)).astype(int)
    places = [np.argwhere((pixels == colour).all(2)) for colour in (RED, GREEN, BLUE)]
    sizes = {len(found) for found in places}
    assert len(sizes) == 1
    assert abs(sizes.pop() / rows / 240**2 - 1) < 0.6  # about the usual area, in whole steps
    centres = [found[:, 1].mean() for found in places]
    assert centres == sorted(centres)
    assert len({tuple(np.unique(found[:, 0])) for found in places}) == 1  # side by side


@pytest.mark.parametrize("name", ["$x_1$", "玫瑰", "very " * 200, "", "half \ud83d", "a\nb"])
def test_no_name_spoils_the_page(name: str) -> None:
    assert page(name, 1, (8, 8), heading=name).size == page("a", 1, (8, 8)).size
