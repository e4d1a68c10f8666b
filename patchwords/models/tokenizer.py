"""A tokenizer of pictures: the encoder of a discrete VAE as in DALL-E (arXiv 2102.12092), a code word for every place.

BEiT learns to predict these words. The decoder serves training alone, so it belongs to the objective.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from torch import Tensor, nn
from torch.nn import functional as F

from patchwords.errors import UsageError
from patchwords.layers.encoder import check_layers
from patchwords.layers.head import Linear
from patchwords.layers.look import Gaze
from patchwords.layers.residual_conv import ConvGroup, conv
from patchwords.layers.tokens import Grid
from patchwords.models.model import Model, Shows
from patchwords.ops.patches import check_pictures
from patchwords.settings import at_least, check

KERNEL = 7  # of the convolution that sees the pixels
MOST_GROUPS, MOST_BLOCKS = 8, 100  # a stride of 128: more would leave nothing of a picture
NO_ATTENTION = "a tokenizer has no attention weights: ask a ViT, or a hybrid, for them"


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenizerConfig:
    """`groups` of `blocks`, the map halved between two groups; group g is 2^g · `width` wide.

    `classes` are none, and so the `head` is that of any model without: nothing.
    """

    kind: ClassVar[str] = "tokenizer"
    vocabulary: int
    groups: int
    blocks: int = 2
    width: int = 64
    image: tuple[int, int] = (112, 112)
    channels: int = 3
    classes: int = 0
    head: Linear = field(default_factory=Linear)

    def __post_init__(self) -> None:
        check(self)
        at_least(1, blocks=self.blocks, groups=self.groups, width=self.width, channels=self.channels)
        at_least(2, vocabulary=self.vocabulary)
        at_least(1, image=min(self.image))
        if self.groups > MOST_GROUPS or self.blocks > MOST_BLOCKS:
            raise UsageError(
                f"{self.groups} groups of {self.blocks} blocks are too many: up to {MOST_GROUPS} of {MOST_BLOCKS} each"
            )
        if self.width % 4:
            raise UsageError(f"width {self.width} is not a multiple of 4, and a branch is a quarter of it: choose one")
        if self.classes:
            raise UsageError(
                f"a tokenizer tells no classes apart, and {self.classes} were asked for: train it with the recipe "
                f'tokenizer (objective.kind = "tokenizer"), and give it to the objective beit'
            )
        self.codes(self.image)

    @property
    def stride(self) -> int:
        """Pixels between two places, in both directions."""
        return 1 << (self.groups - 1)

    @property
    def gain(self) -> float:
        """Of every block's branch, so that the whole starts near its shortcuts."""
        return (self.groups * self.blocks) ** -2

    @property
    def widths(self) -> tuple[int, ...]:
        """Channels of each group."""
        return tuple(self.width << group for group in range(self.groups))

    def codes(self, image: tuple[int, int]) -> Grid:
        """Rows and columns of code words for a picture of this size."""
        if image[0] % self.stride or image[1] % self.stride:
            raise UsageError(
                f"image {image[0]}x{image[1]} is not a multiple of the tokenizer's stride {self.stride}: "
                f"choose such a size, or fewer groups"
            )
        return image[0] // self.stride, image[1] // self.stride

    def build(self) -> "Tokenizer":
        return Tokenizer(self)


def tokenizer(vocabulary: int, stride: int, image: tuple[int, int]) -> TokenizerConfig:
    """A small one, a power of two between its places."""
    return TokenizerConfig(vocabulary=vocabulary, groups=stride.bit_length(), image=image)


def dalle(image: tuple[int, int]) -> TokenizerConfig:
    """As DALL-E's published encoder."""
    return TokenizerConfig(vocabulary=8192, groups=4, blocks=2, width=256, image=image)


class Tokenizer(Model):
    """Pictures to a distribution over the vocabulary at every place."""

    def __init__(self, config: TokenizerConfig):
        super().__init__()
        self.config = config
        inputs = (config.width, *config.widths)
        self.input = conv(config.channels, config.width, KERNEL)
        self.groups = nn.ModuleList(
            ConvGroup(config.blocks, before, after, config.gain)
            for before, after in zip(inputs, config.widths, strict=False)
        )
        self.output = conv(config.widths[-1], config.vocabulary, 1)

    def maps(self, images: Tensor) -> list[Tensor]:
        """What each group makes: (batch, 2^g · width, height / 2^g, width / 2^g)."""
        check_pictures(images, self.config.channels)
        self.config.codes((images.shape[2], images.shape[3]))
        x, found = self.input(images), []
        for number, group in enumerate(self.groups):
            x = group(F.max_pool2d(x, 2) if number else x)
            found.append(x)
        return found

    def logits(self, images: Tensor) -> Tensor:
        """(batch, vocabulary, rows, cols)."""
        return self.output(F.relu(self.maps(images)[-1]))

    def tokens(self, images: Tensor) -> Tensor:
        """The likeliest word of every place: (batch, rows, cols)."""
        return self.logits(images).argmax(1)

    def represent(self, images: Tensor) -> Tensor:
        return F.relu(self.maps(images)[-1]).mean((2, 3))

    def forward(self, images: Tensor) -> Tensor:
        return self.represent(images)

    def pair(self, images: Tensor) -> tuple[Tensor, Tensor]:
        y = self(images)
        return y, y

    def features(self, images: Tensor, at: Sequence[int]) -> list[Tensor]:
        check_layers(at, len(self.groups))
        maps = self.maps(images)
        return [maps[number - 1] for number in at]

    def attention(self, images: Tensor, at: Sequence[int]) -> list[Tensor]:
        raise UsageError(NO_ATTENTION)

    def gaze(self, images: Tensor) -> Gaze:
        raise UsageError(NO_ATTENTION)

    def evidence(self, images: Tensor, of: Tensor) -> Tensor:
        raise UsageError("a tokenizer has no classes, and no evidence for one")

    @property
    def shows(self) -> Shows:
        return "nothing"

    def filters(self) -> Tensor:
        return self.input.weight.detach()

    def positions(self) -> Tensor:
        raise UsageError(
            "a tokenizer adds nothing for a place: its convolutions know where they are by their neighbours"
        )
