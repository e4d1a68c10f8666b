"""The architecture behind weights in our names, of any sizes: shapes tell almost everything, the caller the rest."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import Tensor

from patchwords.errors import ModelError, UsageError
from patchwords.layers.head import HeadKind, Linear, TanhMLP
from patchwords.layers.pool import Attend, ClassToken, Mean, Pool
from patchwords.layers.position import Learned1D, Over, Position
from patchwords.models.hybrid import ResNetStem
from patchwords.models.names import Config
from patchwords.models.resnet import ResNetConfig
from patchwords.models.vit import SIZES, ViTConfig
from patchwords.weights.formats import Format
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
        return _resnet(state, format, told) if "root.conv.weight" in state else _vit(state, format, told)
    except UsageError as error:  # here nobody asked for it: the weights do
        raise ModelError(f"the weights are of no model that can be built: {error}") from error


def _vit(state: State, format: Format, told: Told) -> ViTConfig:
    width, channels, tall, wide = _shape(state, "embed.patch.weight", 4)
    stem = _stem(state, format)
    special = tuple(
        name for name in ("class", "register") for _ in range(_count(state, f"embed.special.{name}_token", 3, axis=1))
    )
    position, image = _position(state, special, _unit((tall, wide), stem), format, told)
    return ViTConfig(
        depth=1 + _last(state, "encoder.blocks.{i}.norm1.weight"),
        width=width,
        mlp=_shape(state, "encoder.blocks.0.mlp.fc1.weight", 2)[0],
        heads=_heads(width, told),
        patch=(tall, wide),
        image=image,
        channels=_shape(state, "embed.stem.root.conv.weight", 4)[1] if stem else channels,
        classes=_classes(state),
        stem=stem,
        special=special,
        position=position,
        biases="qkv" if "encoder.blocks.0.attention.qkv.bias" in state else "none",
        layer_scale=1.0 if "encoder.blocks.0.scale1.weight" in state else None,
        pool=_pool(state, special, format),
        head=_head(state, width),
        **format.computes,
    )


def _resnet(state: State, format: Format, told: Told) -> ResNetConfig:
    activation = "post" if "root.norm.weight" in state else "pre"
    width, channels = _shape(state, "root.conv.weight", 4)[:2]
    return ResNetConfig(
        units=_units(state, ""),
        width=width,
        form=format.forms[activation],
        image=told.image or (224, 224),
        channels=channels,
        classes=_classes(state),
    )


def _stem(state: State, format: Format) -> ResNetStem | None:
    if "embed.stem.root.conv.weight" not in state:
        return None
    width = _shape(state, "embed.stem.root.conv.weight", 4)[0]
    return ResNetStem(units=_units(state, "embed.stem."), width=width, form=format.forms["post"])


def _units(state: State, prefix: str) -> tuple[int, ...]:
    places = [parse(f"{prefix}stages.{{b}}.units.{{u}}.conv1.weight", key) for key in state]
    found = [place for place in places if place]
    depth = 1 + max((place["b"] for place in found), default=-1)
    return tuple(1 + max((place["u"] for place in found if place["b"] == b), default=-1) for b in range(depth))


def _position(
    state: State, special: tuple[str, ...], unit: tuple[int, int], format: Format, told: Told
) -> tuple[Position, tuple[int, int]]:
    """The kind of positions and the picture they are for; `unit` is what one token stands for, in pixels."""
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
                return Learned1D(over=over), size or (side * unit[0], side * unit[1])
    raise ModelError(
        f"{rows} positions with {len(special)} special tokens are for no picture of {told.image or 'equal sides'}: "
        f"say its size in pixels with trained_at=(height, width), or --image"
    )


def _unit(patch: tuple[int, int], stem: ResNetStem | None) -> tuple[int, int]:
    """Pixels of the picture that one token stands for."""
    shrink = 2 ** (2 + max(len(stem.units) - 1, 0)) if stem else 1
    return patch[0] * shrink, patch[1] * shrink


def _heads(width: int, told: Told) -> int:
    if told.heads:
        return told.heads
    if width not in HEADS:
        raise ModelError(
            f"the file does not say how many heads its width of {width} is cut into: say it with heads=…, or --heads"
        )
    told.notes.append(f"the file does not say how many heads there are: {HEADS[width]} are assumed for width {width}")
    return HEADS[width]


def _pool(state: State, special: tuple[str, ...], format: Format) -> Pool:
    if "pool.probe" in state:
        return Attend(over=format.attends if special else "tokens")
    if "pool.norm.weight" in state:
        return Mean(norm="after")
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
