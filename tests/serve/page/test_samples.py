"""The samples are drawn, not kept: the same each time, and small."""

import io

import pytest
from PIL import Image

from patchwords.serve.page.samples import SAMPLES, SIDE, sample


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_is_drawn_the_same_each_time(name: str) -> None:
    first = sample(name)
    assert sample(name) == first
    assert len(first) < 40_000
    with Image.open(io.BytesIO(first)) as image:
        assert (image.format, image.mode, image.size) == ("PNG", "RGB", (SIDE, SIDE))
        assert len(image.getcolors(SIDE * SIDE) or ()) > 20


def test_samples_differ() -> None:
    assert len({sample(name) for name in SAMPLES}) == len(SAMPLES)
