"""From code words back to pictures: the decoder of a discrete VAE, the mirror image of its encoder."""

from torch import Tensor, nn
from torch.nn import functional as F

from patchwords.layers.residual_conv import ConvGroup, conv
from patchwords.models.tokenizer import TokenizerConfig


class CodeDecoder(nn.Module):
    """Mixtures of code words (batch, vocabulary, rows, cols) to pictures (batch, channels, height, width)."""

    def __init__(self, config: TokenizerConfig):
        super().__init__()
        widths = config.widths[::-1]
        inputs = (widths[0], *widths)
        self.words = conv(config.vocabulary, widths[0], 1)  # the embedding of a mixture is the mixture of embeddings
        self.groups = nn.ModuleList(
            ConvGroup(config.blocks, before, after, config.gain) for before, after in zip(inputs, widths, strict=False)
        )
        self.output = conv(config.width, config.channels, 1)

    def forward(self, codes: Tensor) -> Tensor:
        x = self.words(codes)
        for number, group in enumerate(self.groups):
            x = group(F.interpolate(x, scale_factor=2, mode="nearest") if number else x)
        return self.output(F.relu(x))
