"""Pixels inside the file: standardised as everywhere, and found again to the bit."""

import pytest
import torch
from torch import nn

from patchwords.data.preprocess import IMAGENET, Preprocess
from patchwords.data.transforms import normalise
from patchwords.export.pixels import OfPixels, pixels_of

CLIP = Preprocess(mean=(0.48145466, 0.4578275, 0.40821073), deviation=(0.26862954, 0.26130258, 0.27577711))
WIDE = Preprocess(mean=(-3.0,), deviation=(100.0,))
GREY = Preprocess(mean=(0.5,), deviation=(0.001,))
EVERY = torch.arange(256, dtype=torch.uint8)


@pytest.mark.parametrize("preprocess", [Preprocess(), IMAGENET, CLIP, WIDE, GREY])
def test_all_256_values_come_back(preprocess: Preprocess) -> None:
    channels = len(preprocess.mean)
    seen = EVERY.view(1, 1, 16, 16).expand(2, channels, 16, 16)
    assert torch.equal(pixels_of(normalise(seen, preprocess), preprocess), seen.permute(0, 2, 3, 1))


def test_they_are_standardised_as_everywhere() -> None:
    pixels = EVERY.view(1, 16, 16, 1).repeat(1, 1, 1, 3)
    assert torch.equal(OfPixels(nn.Identity(), IMAGENET)(pixels), normalise(pixels.permute(0, 3, 1, 2), IMAGENET))
