"""The Vision Transformer: eq. 1-4 in four parts, `head(pool(encoder(embed(images))))`."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from torch import Tensor, nn

from patchwords.errors import UsageError
from patchwords.layers.attention import Attention, Biases, NoOffsets
from patchwords.layers.axial import AxialBlock, AxialEncoder
from patchwords.layers.bias import Bias, BorrowedBias, SharedBias
from patchwords.layers.block import Block, Layer, StreamNormBlock
from patchwords.layers.embed import Embed, PatchProjection
from patchwords.layers.encoder import AtStem, Encoder, GlobalEncoder, numbered
from patchwords.layers.head import HeadKind, Linear, shares
from patchwords.layers.look import Gaze
from patchwords.layers.mlp import MLP, Activation
from patchwords.layers.offsets import Offsets
from patchwords.layers.placing import InEncoder, Layerwise
from patchwords.layers.pool import ClassToken, Pool
from patchwords.layers.position import Learned1D, Position, Relative, RelativeBias
from patchwords.layers.tokens import Grid, Special, Tokens, check_special
from patchwords.models.hybrid import ResNetFeatures, ResNetStem
from patchwords.models.model import Model, Shows
from patchwords.ops import patches
from patchwords.settings import at_least, below_one, check

# Beyond any use, and building or attending would not end; pairs of tokens, for which each block keeps an index.
MOST_LAYERS, MOST_TOKENS, MOST_PAIRS = 1000, 1 << 20, 1 << 29

BLOCKS: dict[str, type[Layer]] = {"pre-norm": Block, "stream-norm": StreamNormBlock}


@dataclass(frozen=True, kw_only=True, slots=True)
class ViTConfig:
    """What makes one Vision Transformer differ from another, each a number or a part."""

    kind: ClassVar[str] = "vit"
    depth: int
    width: int
    mlp: int
    heads: int
    patch: tuple[int, int]
    image: tuple[int, int] = (224, 224)
    channels: int = 3
    classes: int = 1000
    stem: ResNetStem | None = None
    special: tuple[str, ...] = ("class",)
    position: Position = field(default_factory=Learned1D)
    encoder: Literal["global", "axial"] = "global"
    block: Literal["pre-norm", "stream-norm"] = "pre-norm"
    biases: Biases = "qkv"
    activation: Activation = "gelu-tanh"
    epsilon: float = 1e-6
    layer_scale: float | None = None
    pool: Pool = field(default_factory=ClassToken)
    head: HeadKind = field(default_factory=Linear)
    dropout: float = 0.0
    weight_dropout: float = 0.0
    stochastic_depth: float = 0.0

    def __post_init__(self) -> None:
        check(self)
        at_least(1, depth=self.depth, width=self.width, mlp=self.mlp, heads=self.heads, channels=self.channels)
        at_least(1, patch=min(self.patch), image=min(self.image))
        at_least(0, classes=self.classes)
        self._check_sizes()
        self._check_tokens()

    def _check_sizes(self) -> None:
        below_one(dropout=self.dropout, weight_dropout=self.weight_dropout, stochastic_depth=self.stochastic_depth)
        if not 0 < self.epsilon < 1:
            raise UsageError(f"epsilon {self.epsilon} is not between 0 and 1")
        if self.depth > MOST_LAYERS:
            raise UsageError(f"depth {self.depth} is more than {MOST_LAYERS}: choose fewer layers")
        if self.width % self.heads:
            raise UsageError(f"width {self.width} is not a multiple of heads {self.heads}: choose heads that divide it")
        if self.width % self.position.divides:
            kind, divisor = self.position.kind, self.position.divides
            raise UsageError(f"position {kind} needs a width that {divisor} divides, not {self.width}")

    def _check_tokens(self) -> None:
        check_special(self.special)
        if self.pool.kind == "class" and self.special[:1] != ("class",):
            raise UsageError(
                'pool "class" needs the class token first: special = ["class"], or choose pool "mean" or "map"'
            )
        self._check_distilled()
        if self.encoder == "axial" and self.special:
            raise UsageError('the axial encoder has no place for special tokens: special = [] and pool "mean" or "map"')
        if self.encoder == "axial" and self.position.kind == "relative-bias":
            raise UsageError(
                'position "relative-bias" is for attention between all patches, not along an axis: choose "relative"'
            )
        if self.tokens > MOST_TOKENS:
            raise UsageError(
                f"{self.tokens} tokens are more than {MOST_TOKENS}: choose larger patches or smaller pictures"
            )
        if self.position.kind == "relative-bias" and self.depth * self.tokens**2 > MOST_PAIRS:
            raise UsageError(
                f"{self.tokens} tokens have more pairs than biases can be kept for in {self.depth} layers: "
                "choose larger patches or smaller pictures"
            )

    def _check_distilled(self) -> None:
        if (self.pool.kind == "distilled") != (self.head.kind == "distilled"):
            raise UsageError(
                f'pool "{self.pool.kind}" and head "{self.head.kind}" do not go together: a distilled head has a '
                "classifier for each of the two tokens of a distilled pool; choose both, or neither"
            )
        if self.pool.kind == "distilled" and self.special[:2] != ("class", "distillation"):
            raise UsageError(
                'pool "distilled" needs both tokens first: special = ["class", "distillation"], or choose another pool'
            )

    @property
    def grid(self) -> Grid:
        """Rows and columns of patches."""
        return patches.grid(self.stem.size(self.image) if self.stem else self.image, self.patch)

    @property
    def cell(self) -> tuple[int, int]:
        """Height and width of a patch, in pixels of the picture."""
        stride = self.stem.stride if self.stem else 1
        return stride * self.patch[0], stride * self.patch[1]

    @property
    def tokens(self) -> int:
        """The length of the sequence."""
        return len(self.special) + self.grid[0] * self.grid[1]

    def build(self) -> "ViT":
        return ViT(self)


class ViT(Model):
    """Four parts in the paper's order."""

    def __init__(self, config: ViTConfig):
        super().__init__()
        self.config = config
        self.embed = embed(config)
        self.encoder = encoder(config)
        self.pool = config.pool.build(config.width, config.heads, config.mlp, config.activation, config.epsilon)
        self.head = config.head.build(config.width, config.classes)

    def forward(self, images: Tensor) -> Tensor:
        z0 = self.embed(images)  # eq. 1
        y = self.read(z0)  # eq. 2 to 4
        return self.head(y)

    def read(self, z0: Tokens) -> Tensor:
        """What the head sees of a sequence."""
        z = self.encoder(z0)  # eq. 2 and 3
        return self.pool(z)  # eq. 4

    def pair(self, images: Tensor) -> tuple[Tensor, Tensor]:
        return self.head.pair(self.read(self.embed(images)))

    def represent(self, images: Tensor) -> Tensor:
        return self.head.represent(self.read(self.embed(images)))

    def glimpse(self, images: Tensor) -> Tensor:
        return self.head.represent(self.read(self.embed.glimpse(images)))

    def features(self, images: Tensor, at: Sequence[int]) -> list[Tensor]:
        return numbered(at, self.config.depth, self.encoder.trace(self.embed(images)), lambda tokens: tokens.map)

    def attention(self, images: Tensor, at: Sequence[int]) -> list[Tensor]:
        return self.encoder.attention(self.embed(images), at)

    def gaze(self, images: Tensor) -> Gaze:
        looks = tuple(self.encoder.looks(self.embed(images)))
        block, tokens = looks[-1]
        z = tokens.replace(self.encoder.norm(block(tokens.x)))
        return Gaze(looks, self.pool.reads(z), self.config.cell)

    def evidence(self, images: Tensor, of: Tensor) -> Tensor:
        if not self._adds_up:
            raise UsageError("the logits are no sums over the patches, so none has a share of one: ask for the gaze")
        z = self.encoder(self.embed(images))
        return shares(z.map, self.head.classifier, of)

    @property
    def _adds_up(self) -> bool:
        """Whether the logits are means over what a linear classifier says of each patch."""
        config = self.config
        linear = config.head.kind == "linear" and config.classes > 0
        return linear and config.pool.kind == "mean" and config.pool.norm == "before"

    @property
    def shows(self) -> Shows:
        return "gaze" if self.config.encoder == "global" else "evidence" if self._adds_up else "nothing"

    def filters(self) -> Tensor:
        stem = self.embed.stem
        kernels = stem.filters() if isinstance(stem, ResNetFeatures) else self.embed.patch.weight
        return kernels.detach()

    def positions(self) -> Tensor:
        config = self.config
        if config.position.kind in ("none", "relative", "relative-bias"):
            raise UsageError(f"positions of kind {config.position.kind} add nothing to a patch for its place")
        rows, cols = config.grid
        weight = self.embed.patch.weight
        blank = Tokens(weight.new_zeros(1, config.tokens, config.width), len(config.special), config.grid)
        placed = self.embed.position(blank) if config.position.at == "stem" else self.encoder.position(blank, 0)
        return placed.patches[0].unflatten(0, (rows, cols)).detach()


def embed(config: ViTConfig) -> Embed:
    stem = config.stem.build(config.channels) if config.stem else nn.Identity()
    channels = config.stem.channels if config.stem else config.channels
    table = config.position.build(config.width, config.grid, config.special)
    return Embed(
        stem,
        PatchProjection(channels, config.width, config.patch),
        Special(config.special, config.width),
        table if config.position.at == "stem" else InEncoder(),
        config.dropout,
    )


def encoder(config: ViTConfig) -> Encoder:
    norm = nn.LayerNorm(config.width, eps=config.epsilon) if config.pool.norm == "before" else nn.Identity()
    rates = [config.stochastic_depth * i / max(config.depth - 1, 1) for i in range(config.depth)]
    if config.encoder == "axial":
        rows, cols = config.grid
        halves = [[block(config, offsets(config, length), rate) for length in (cols, rows)] for rate in rates]
        return AxialEncoder([AxialBlock(*pair) for pair in halves], layerwise(config), norm)
    if config.position == RelativeBias(at="shared"):
        shared = offsets(config, config.tokens)
        blocks = [block(config, BorrowedBias(shared), rate) for rate in rates]
        return GlobalEncoder(blocks, SharedBias(shared, config.grid), norm)
    blocks = [block(config, offsets(config, config.tokens), rate) for rate in rates]
    return GlobalEncoder(blocks, layerwise(config), norm)


def layerwise(config: ViTConfig) -> nn.Module:
    """What the encoder adds before each block: Table 8's columns."""
    tables = {"stem": 0, "every": config.depth, "shared": 1}[config.position.at]
    if tables == 0:
        return AtStem()
    return Layerwise([config.position.build(config.width, config.grid, config.special) for _ in range(tables)])


def offsets(config: ViTConfig, tokens: int) -> nn.Module:
    """What an attention layer over so many tokens adds to its logits."""
    match config.position:
        case Relative(std=std):
            return Offsets(tokens, config.width // config.heads, std)
        case RelativeBias():
            return Bias(config.grid, len(config.special), config.heads)
    return NoOffsets()


def block(config: ViTConfig, offsets: nn.Module, rate: float) -> Layer:
    return BLOCKS[config.block](
        Attention(config.width, config.heads, config.biases, offsets, config.dropout, config.weight_dropout),
        MLP(config.width, config.mlp, config.activation, config.dropout),
        config.epsilon,
        config.layer_scale,
        rate,
    )
