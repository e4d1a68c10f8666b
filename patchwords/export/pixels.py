"""The last step of preprocessing inside the file: pixels to what the model takes, and back."""

import torch
from torch import Tensor, nn

from patchwords.data.preprocess import Preprocess
from patchwords.data.transforms import normalise


class OfPixels(nn.Module):
    """A model that is given uint8 pixels (batch, height, width, channels)."""

    def __init__(self, model: nn.Module, preprocess: Preprocess):
        super().__init__()
        self.model = model
        self.preprocess = preprocess

    def forward(self, pixels: Tensor) -> Tensor:
        return self.model(normalise(pixels.permute(0, 3, 1, 2), self.preprocess))


def pixels_of(images: Tensor, preprocess: Preprocess) -> Tensor:
    """The pixels that `normalise` made these images of, exactly: the 256 values lie far apart."""
    mean, deviation = (torch.tensor(numbers)[:, None, None] for numbers in (preprocess.mean, preprocess.deviation))
    values = 255 * (images.cpu() * deviation + mean)
    return values.round().clamp(0, 255).to(torch.uint8).permute(0, 2, 3, 1)
