"""Swin Transformer (Liu et al., 2021, Figure 3): stages of window attention on a map that is merged between them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import ClassVar, Literal, NamedTuple

from torch import Tensor, nn

from patchwords.errors import UsageError
from patchwords.layers.attention import Attention
from patchwords.layers.embed import PatchProjection
from patchwords.layers.encoder import numbered
from patchwords.layers.head import Linear, shares
from patchwords.layers.look import Gaze
from patchwords.layers.merge import Merge
from patchwords.layers.mlp import MLP, Activation
from patchwords.layers.tokens import Grid
from patchwords.layers.window import WindowBlock, WindowOffsets
from patchwords.models.model import Model, Shows
from patchwords.ops import patches
from patchwords.settings import at_least, below_one, check

NO_WEIGHTS = "window attention has no weights between all tokens: a place sees its window; ask for the evidence"


class Size(NamedTuple):
    width: int
    depths: tuple[int, ...]
    heads: tuple[int, ...]


SIZES = {  # section 3.3
    "T": Size(96, (2, 2, 6, 2), (3, 6, 12, 24)),
    "S": Size(96, (2, 2, 18, 2), (3, 6, 12, 24)),
    "B": Size(128, (2, 2, 18, 2), (4, 8, 16, 32)),
    "L": Size(192, (2, 2, 18, 2), (6, 12, 24, 48)),
}

# Beyond any use, and building or attending would not end.
MOST_STAGES, MOST_LAYERS, MOST_TOKENS, MOST_WINDOW = 8, 200, 1 << 22, 32


@dataclass(frozen=True, kw_only=True, slots=True)
class SwinConfig:
    """`depths` and `heads` of each stage; `width` of the first, which doubles; the MLP is `mlp` times as wide."""

    kind: ClassVar[str] = "swin"
    depths: tuple[int, ...]
    heads: tuple[int, ...]
    width: int
    mlp: int = 4
    window: tuple[int, int] = (7, 7)
    patch: tuple[int, int] = (4, 4)
    image: tuple[int, int] = (224, 224)
    channels: int = 3
    classes: int = 1000
    biases: Literal["qkv", "none"] = "qkv"
    activation: Activation = "gelu"
    epsilon: float = 1e-5
    head: Linear = field(default_factory=Linear)
    dropout: float = 0.0
    weight_dropout: float = 0.0
    stochastic_depth: float = 0.0

    def __post_init__(self) -> None:
        check(self)
        at_least(1, depths=min(self.depths, default=0), heads=min(self.heads, default=0), width=self.width)
        at_least(1, mlp=self.mlp, window=min(self.window), channels=self.channels)
        at_least(1, patch=min(self.patch), image=min(self.image))
        at_least(0, classes=self.classes)
        self._check_shares()
        self._check_stages()
        self._check_most()

    def _check_shares(self) -> None:
        below_one(dropout=self.dropout, weight_dropout=self.weight_dropout, stochastic_depth=self.stochastic_depth)
        if not 0 < self.epsilon < 1:
            raise UsageError(f"epsilon {self.epsilon} is not between 0 and 1")

    def _check_stages(self) -> None:
        if len(self.depths) > MOST_STAGES:
            raise UsageError(f"{len(self.depths)} stages are more than {MOST_STAGES}: choose fewer")
        if len(self.depths) != len(self.heads):
            raise UsageError(f"depths {self.depths} and heads {self.heads} are of another number of stages")
        for width, heads in zip(self.widths, self.heads, strict=True):
            if width % heads:
                raise UsageError(f"width {width} is not a multiple of heads {heads}: choose heads that divide it")

    def _check_most(self) -> None:
        rows, cols = self.grids[0]
        numbers = {
            "blocks": (sum(self.depths), MOST_LAYERS),
            "places of a map": (rows * cols, MOST_TOKENS),
            "places along a window": (max(max(window) for window in self.windows), MOST_WINDOW),
        }
        for what, (number, most) in numbers.items():
            if number > most:
                raise UsageError(f"{number} {what} are more than {most}: choose fewer")

    @property
    def widths(self) -> tuple[int, ...]:
        """The width of each stage."""
        return tuple(self.width * 2**stage for stage in range(len(self.depths)))

    @property
    def grids(self) -> tuple[Grid, ...]:
        """Rows and columns of each stage's map."""
        return grids(self.image, self.patch, len(self.depths))

    @property
    def windows(self) -> tuple[Grid, ...]:
        """The window of each stage: no side of it is longer than the map's."""
        return tuple((min(self.window[0], rows), min(self.window[1], cols)) for rows, cols in self.grids)

    def build(self) -> "Swin":
        return Swin(self)


class Swin(Model):
    """Patches, stages, norm, mean over the map, head; pictures may be of any size that the patch divides."""

    def __init__(self, config: SwinConfig):
        super().__init__()
        self.config = config
        self.embed = PatchEmbed(
            PatchProjection(config.channels, config.width, config.patch), config.epsilon, config.dropout
        )
        self.stages = nn.ModuleList(stages(config))
        start(self.stages)
        self.norm = nn.LayerNorm(config.widths[-1], eps=config.epsilon)
        self.head = config.head.build(config.widths[-1], config.classes)

    def trace(self, images: Tensor) -> Iterator[Tensor]:
        """The map (batch, rows, cols, width) after each stage, before it is merged for the next."""
        x = self.embed(images)
        for stage in self.stages:
            x = stage(x)
            yield x

    def maps(self, images: Tensor) -> Tensor:
        """What the mean is taken of: (batch, rows, cols, width)."""
        x = self.embed(images)
        for stage in self.stages:
            x = stage(x)
        return self.norm(x)

    def represent(self, images: Tensor) -> Tensor:
        return self.maps(images).mean((1, 2))

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.represent(images))

    def pair(self, images: Tensor) -> tuple[Tensor, Tensor]:
        return self.head.pair(self.represent(images))

    def features(self, images: Tensor, at: Sequence[int]) -> list[Tensor]:
        """The maps after the stages numbered in `at`, each before it is merged for the next stage."""
        return numbered(at, len(self.stages), self.trace(images), lambda x: x.permute(0, 3, 1, 2))

    def attention(self, images: Tensor, at: Sequence[int]) -> list[Tensor]:
        raise UsageError(NO_WEIGHTS)

    def gaze(self, images: Tensor) -> Gaze:
        raise UsageError(NO_WEIGHTS)

    def evidence(self, images: Tensor, of: Tensor) -> Tensor:
        return shares(self.maps(images).permute(0, 3, 1, 2), self.head.classifier, of)

    @property
    def shows(self) -> Shows:
        return "evidence" if self.config.classes else "nothing"

    def filters(self) -> Tensor:
        return self.embed.patch.weight.detach()

    def positions(self) -> Tensor:
        raise UsageError("a Swin adds nothing for a place: its windows know the offsets between their tokens")


class PatchEmbed(nn.Module):
    """Patches and their norm, as a map (batch, rows, cols, width)."""

    def __init__(self, patch: PatchProjection, epsilon: float, dropout: float):
        super().__init__()
        self.patch = patch
        self.norm = nn.LayerNorm(patch.weight.shape[0], eps=epsilon)
        self.drop = nn.Dropout(dropout)

    def forward(self, images: Tensor) -> Tensor:
        return self.drop(self.norm(self.patch(images).permute(0, 2, 3, 1)))


class Stage(nn.Module):
    """Blocks on a map of one size; all but the first stage begin by merging the map before."""

    def __init__(self, merge: nn.Module, blocks: Sequence[WindowBlock]):
        super().__init__()
        self.merge = merge
        self.blocks = nn.ModuleList(blocks)

    def forward(self, x: Tensor) -> Tensor:
        x = self.merge(x)
        for block in self.blocks:
            x = block(x)
        return x


def grids(image: tuple[int, int], patch: tuple[int, int], stages: int) -> tuple[Grid, ...]:
    """Rows and columns of the map of each stage; an odd side is rounded up where it is halved."""
    rows, cols = patches.grid(image, patch)
    return tuple((-(-rows // 2**stage), -(-cols // 2**stage)) for stage in range(stages))


def stages(config: SwinConfig) -> Iterator[Stage]:
    last = max(sum(config.depths) - 1, 1)
    ends = list(accumulate(config.depths))
    for stage, depth in enumerate(config.depths):
        rates = [config.stochastic_depth * (ends[stage] - depth + i) / last for i in range(depth)]
        merge = Merge(config.widths[stage - 1], config.epsilon) if stage else nn.Identity()
        yield Stage(merge, [block(config, stage, number, rate) for number, rate in enumerate(rates)])


def start(blocks: nn.Module) -> None:
    """The authors' first values: all matrices of one small deviation, where this house has Xavier's."""
    for part in blocks.modules():
        if isinstance(part, nn.Linear):
            nn.init.trunc_normal_(part.weight, std=0.02)


def block(config: SwinConfig, stage: int, number: int, rate: float) -> WindowBlock:
    """Every second block of a stage moves its windows by half of their size."""
    width, heads, window = config.widths[stage], config.heads[stage], config.windows[stage]
    shift = (window[0] // 2, window[1] // 2) if number % 2 else (0, 0)
    offsets = WindowOffsets(window, shift, heads)
    return WindowBlock(
        Attention(width, heads, config.biases, offsets, config.dropout, config.weight_dropout),
        MLP(width, config.mlp * width, config.activation, config.dropout),
        window,
        shift,
        config.epsilon,
        rate,
    )
