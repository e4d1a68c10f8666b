"""The architecture behind weights in our names, of any sizes: shapes tell almost everything, the caller the rest."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import Tensor

from patchwords.errors import ModelError, UsageError
from patchwords.layers.attention import Biases
from patchwords.layers.head import Distilled, HeadKind, Linear, TanhMLP
from patchwords.layers.pool import Attend, BothTokens, ClassToken, Mean, Pool
from patchwords.layers.position import Fixed1D, Learned1D, Over, Position, RelativeBias
from patchwords.models.hybrid import ResNetStem
from patchwords.models.names import Config
from patchwords.models.resnet import ResNetConfig
from patchwords.models.sizes import SIZES
from patchwords.models.swin import SwinConfig
from patchwords.models.tokenizer import TokenizerConfig
from patchwords.models.vit import ViTConfig
from patchwords.weights import biases, windows
from patchwords.weights.format import Format
from patchwords.weights.rules import parse, shape

State = Mapping[str, Tensor]

# Heads by width where the sizes agree on them: 64 a head up to L, 16 heads above.
HEADS = {size.width: size.heads for name, size in SIZES.items() if name not in ("Mu", "g-opt", "G-opt")}


@dataclass(frozen=True)
class Told:
    """What a caller or a file beside the weights says where the tensors do not."""

    heads: int | None = None
    image: tuple[int, int] | None = None  # the size the weights are for
    wish: tuple[int, int] | None = None  # the size they are wanted for: taken where nothing else tells
    notes: list[str] = field(default_factory=list)  # what had to be assumed, for people to read


def describe(state: State, format: Format, told: Told) -> Config:
    """The configuration of weights that came from `format`."""
    try:
        if "output.weight" in state:
            return _tokenizer(state, told)
        if "stages.0.blocks.0.norm1.weight" in state:
            return _swin(state, format, told)
        return _resnet(state, format, told) if "root.conv.weight" in state else _vit(state, format, told)
    except UsageError as error:  # here nobody asked for it: the weights do
        raise ModelError(f"the weights are of no model that can be built: {error}") from error


def _vit(state: State, format: Format, told: Told) -> ViTConfig:
    width, channels, tall, wide = _shape(state, "embed.patch.weight", 4)
    stem = _stem(state, format)
    special = tuple(
        name
        for name in ("class", "distillation", "register")
        for _ in range(_count(state, f"embed.special.{name}_token", 3, axis=1))
    )
    pool = _pool(state, special, format)
    position, image = _position(state, special, _unit((tall, wide), stem), format, told)
    return ViTConfig(
        depth=1 + _last(state, "encoder.blocks.{i}.norm1.weight"),
        width=width,
        mlp=_shape(state, "encoder.blocks.0.mlp.fc1.weight", 2)[0],
        heads=_heads(state, width, told),
        patch=(tall, wide),
        image=image,
        channels=_shape(state, "embed.stem.root.conv.weight", 4)[1] if stem else channels,
        classes=_classes(state),
        stem=stem,
        special=special,
        position=position,
        biases=_biases(state),
        layer_scale=1.0 if "encoder.blocks.0.scale1.weight" in state else None,
        pool=pool,
        head=Distilled() if pool.kind == "distilled" else _head(state, width),
        **format.computes,
    )


def _swin(state: State, format: Format, told: Told) -> SwinConfig:
    width, channels, tall, wide = _shape(state, "embed.patch.weight", 4)
    depths = _units(state, "stages.{b}.blocks.{u}.norm1.weight")
    tables = [_shape(state, f"stages.{b}.blocks.0.attention.offsets.table", 2) for b in range(len(depths))]
    rows, heads = [table[0] for table in tables], tuple(table[1] for table in tables)
    if told.heads:
        raise ModelError(f"the heads are {told.heads}, but the weights are of {heads}: leave them to the weights")
    assumed = windows.smallest(rows, (tall, wide))
    wishes = [told.wish, assumed] if told.wish else [assumed]
    window, image = windows.found(rows, (tall, wide), [told.image] if told.image else wishes)
    if not told.image and not told.wish:
        told.notes.append(f"nothing says how large its pictures are: {image[0]}x{image[1]} is assumed")
    mlp, rest = divmod(_shape(state, "stages.0.blocks.0.mlp.fc1.weight", 2)[0], width)
    if rest:
        raise ModelError(f"the MLP of width {width} is not a whole number of times as wide")
    return SwinConfig(
        depths=depths,
        heads=heads,
        width=width,
        mlp=mlp,
        window=window,
        patch=(tall, wide),
        image=image,
        channels=channels,
        classes=_classes(state),
        biases="qkv" if "stages.0.blocks.0.attention.qkv.bias" in state else "none",
        **format.computes,
    )


def _resnet(state: State, format: Format, told: Told) -> ResNetConfig:
    activation = "post" if "root.norm.weight" in state else "pre"
    width, channels = _shape(state, "root.conv.weight", 4)[:2]
    return ResNetConfig(
        units=_units(state, "stages.{b}.units.{u}.conv1.weight"),
        width=width,
        form=format.forms[activation],
        image=told.image or (224, 224),
        channels=channels,
        classes=_classes(state),
    )


def _tokenizer(state: State, told: Told) -> TokenizerConfig:
    places = [place for key in state if (place := parse("groups.{g}.blocks.{b}.conv1.weight", key))]
    width, channels = _shape(state, "input.weight", 4)[:2]
    return TokenizerConfig(
        vocabulary=_shape(state, "output.weight", 4)[0],
        groups=1 + max((place["g"] for place in places), default=-1),
        blocks=1 + max((place["b"] for place in places), default=-1),
        width=width,
        image=told.image or told.wish or (256, 256),  # any that the stride divides; DALL-E's
        channels=channels,
    )


def _stem(state: State, format: Format) -> ResNetStem | None:
    if "embed.stem.root.conv.weight" not in state:
        return None
    width = _shape(state, "embed.stem.root.conv.weight", 4)[0]
    units = _units(state, "embed.stem.stages.{b}.units.{u}.conv1.weight")
    return ResNetStem(units=units, width=width, form=format.forms["post"])


def _units(state: State, template: str) -> tuple[int, ...]:
    """How many units each stage has; the template says where both numbers stand in a name."""
    places = [parse(template, key) for key in state]
    found = [place for place in places if place]
    numbers = sorted({place["b"] for place in found})
    if numbers != list(range(len(numbers))):  # before so many are counted
        raise ModelError(f"among the weights stage {numbers[-1]} is there, and not every stage before it")
    return tuple(1 + max(place["u"] for place in found if place["b"] == b) for b in numbers)


def _position(
    state: State, special: tuple[str, ...], unit: tuple[int, int], format: Format, told: Told
) -> tuple[Position, tuple[int, int]]:
    """The kind of positions and the picture they are for; `unit` is what one token stands for, in pixels."""
    if name := biases.table(state):
        if "embed.position.table" in state:
            raise ModelError(
                "the weights have positions and biases for offsets at once, which no model here has; "
                "not in the model: embed.position.table"
            )
        pictures = [told.image] if told.image else [None, told.wish] if told.wish else [None]
        return RelativeBias(at=biases.TABLES[name]), biases.found(len(state[name]), len(special), unit, pictures)
    if format.tableless and "embed.position.table" not in state:
        image = told.image or told.wish or (224, 224)
        kind, (height, width) = format.tableless.kind, image
        told.notes.append(f"no position table: {kind} for a picture of {height}x{width} is assumed")
        return format.tableless, image
    rows = _shape(state, "embed.position.table", 3)[1]
    counts: dict[Over, int] = {"tokens": len(special), "patches": 0, "class": special.count("class")}
    for over, count in counts.items():
        for size in [told.image] if told.image else [None, told.wish]:  # None: a square of patches
            side = math.isqrt(max(rows - count, 0))
            grid = (size[0] // unit[0], size[1] // unit[1]) if size else (side, side)
            if 0 < grid[0] * grid[1] == rows - count:
                table = Fixed1D() if format.table == "fixed-1d" else Learned1D(over=over)
                return table, size or (side * unit[0], side * unit[1])
    raise ModelError(
        f"{rows} positions with {len(special)} special tokens are for no picture of {told.image or 'equal sides'}: "
        f"say its size in pixels with trained_at=(height, width), or --image"
    )


def _unit(patch: tuple[int, int], stem: ResNetStem | None) -> tuple[int, int]:
    """Pixels of the picture that one token stands for."""
    shrink = 2 ** (2 + max(len(stem.units) - 1, 0)) if stem else 1
    return patch[0] * shrink, patch[1] * shrink


def _biases(state: State) -> Biases:
    """Which of queries, keys and values have one."""
    if "encoder.blocks.0.attention.qkv.bias" in state:
        return "qkv"
    return "qv" if "encoder.blocks.0.attention.qkv.q_bias" in state else "none"


def _heads(state: State, width: int, told: Told) -> int:
    if heads := told.heads or biases.heads(state):
        return heads
    if width not in HEADS:
        raise ModelError(
            f"the file does not say how many heads its width of {width} is cut into: `patchwords convert FILE "
            "OUT.safetensors --heads N` writes one that does; heads=…, or --heads where a verb takes it, reads this one"
        )
    told.notes.append(f"the file does not say how many heads there are: {HEADS[width]} are assumed for width {width}")
    return HEADS[width]


def _pool(state: State, special: tuple[str, ...], format: Format) -> Pool:
    if "pool.probe" in state:
        return Attend(over=format.attends if special else "tokens")
    if "pool.norm.weight" in state:
        return Mean(norm="after")
    if "distillation" in special and format.asks == "both":
        return BothTokens()
    return ClassToken() if "class" in special else Mean()


def _head(state: State, width: int) -> HeadKind:
    hidden = _count(state, "head.pre_logits.weight", 2, axis=0)
    return TanhMLP(hidden=None if hidden == width else hidden) if hidden else Linear()


def _classes(state: State) -> int:
    """From the weight or the bias, so that one without the other is missed by name."""
    return _count(state, "head.classifier.weight", 2, axis=0) or _count(state, "head.classifier.bias", 1, axis=0)


def _last(state: State, template: str) -> int:
    """The highest number that stands in a name."""
    return max((place["i"] for key in state if (place := parse(template, key))), default=-1)


def _shape(state: State, name: str, dimensions: int) -> tuple[int, ...]:
    if name not in state:
        raise ModelError(f"{name} is missing among the weights, and without it the model's size is not known")
    if state[name].dim() != dimensions:
        raise ModelError(f"{name} is {shape(state[name])}, not a tensor of {dimensions} dimensions")
    return tuple(state[name].shape)


def _count(state: State, name: str, dimensions: int, axis: int) -> int:
    """The length of one axis, or 0 where there is no such tensor."""
    return _shape(state, name, dimensions)[axis] if name in state else 0
