"""Names as the paper writes them, "R50+ViT-B/16@384", read into configurations."""

import re
from dataclasses import replace

from patchwords.errors import UsageError
from patchwords.layers.bottleneck import POST, PRE
from patchwords.layers.pool import Attend, Mean
from patchwords.layers.position import Learned1D
from patchwords.models.hybrid import ResNetStem
from patchwords.models.resnet import UNITS, ResNetConfig
from patchwords.models.vit import SIZES, Size, ViTConfig
from patchwords.settings import nearest, size

Config = ViTConfig | ResNetConfig

# The Compact Transformers paper's ViT-Lite, by number of layers.
LITE = {
    2: Size(2, 128, 128, 2),
    4: Size(4, 128, 128, 2),
    6: Size(6, 256, 512, 4),
    7: Size(7, 256, 512, 4),
    14: Size(14, 384, 1152, 6),
}
DIGITS = Size(depth=4, width=64, mlp=128, heads=4)  # for the 8x8 digits, in 2x2 patches

# The models people name; the grammar reads many more (any patch, any "@size").
NAMES = (
    "ViT-Digits/2",
    *(f"ViT-Lite-{depth}/4" for depth in LITE),
    "ViT-Mu/16",
    "ViT-Ti/16",
    "ViT-S/32",
    "ViT-S/16",
    "ViT-M/16",
    "ViT-B/32",
    "ViT-B/16",
    "ViT-B/8",
    "ViT-L/32",
    "ViT-L/16",
    "ViT-H/14",
    "ViT-So400m/14",
    "ViT-g/14",
    "ViT-G/14",
    "ViT-e/14",
    "R+ViT-Ti/16",
    "R26+ViT-S/32",
    "R26+ViT-B/32",
    "R50+ViT-B/32",
    "R50+ViT-B/16",
    "R50+ViT-L/32",
    "R50+ViT-L/16",
    "Axial-ViT-B/32",
    "Axial-ViT-B/16",
    *(f"BiT-{name}" for name in ("R50x1", "R50x2", "R101x1", "R152x1", "R152x2", "R152x4", "R200x3")),
    *("R50x1", "R50x2", "R101x1", "R152x1", "R152x2", "R152x4", "R200x3"),
)

GRAMMAR = re.compile(
    r"(?P<axial>Axial-)?(R(?P<resnet>\d*)\+)?ViT-(?P<size>[\w-]+?)/(?P<patch>\d+)(-(?P<pool>gap|map))?(@(?P<image>\d+(x\d+)?))?"
    r"|(?P<bit>BiT-)?R(?P<depth>\d+)x(?P<factor>\d+)(@(?P<size_of_image>\d+(x\d+)?))?",
    re.ASCII,
)


def read(name: str) -> Config:
    """The configuration that a name stands for; a wrong name is answered with the nearest ones."""
    match = GRAMMAR.fullmatch(name) if isinstance(name, str) else None
    if not match:
        raise UsageError(f"{name!r} is no model's name; {nearest(str(name), NAMES)}")
    word = match.groupdict()
    if word["depth"]:
        return _resnet(name, word)
    config = _pooled(_vit(name, word), word)
    if word["axial"]:
        config = replace(config, special=(), encoder="axial", pool=config.pool if word["pool"] else Mean())
    return config


def _vit(name: str, word: dict[str, str]) -> ViTConfig:
    letter, patch = word["size"], size(word["patch"])
    if word["resnet"] is not None:
        return _hybrid(name, word)
    if letter == "Digits":
        image = size(word["image"] or "8")
        return ViTConfig(**DIGITS._asdict(), patch=patch, image=image, channels=1, classes=10)
    if letter in (f"Lite-{depth}" for depth in LITE):
        return ViTConfig(
            **LITE[int(letter.removeprefix("Lite-"))]._asdict(),
            patch=patch,
            image=size(word["image"] or "32"),
            classes=10,
            block="stream-norm",
            biases="none",
            activation="gelu",
            epsilon=1e-5,
            position=Learned1D(std=0.2),
        )
    return ViTConfig(**_size(name, letter)._asdict(), patch=patch, image=size(word["image"] or "224"))


def _size(name: str, letter: str) -> Size:
    if letter not in SIZES:
        raise UsageError(f"{name!r} is no model's name: there is no size {letter!r}; {nearest(name, NAMES)}")
    return SIZES[letter]


def _pooled(config: ViTConfig, word: dict[str, str]) -> ViTConfig:
    """-gap and -map: pools that need no class token."""
    match word["pool"]:
        case "gap":
            return replace(config, special=(), pool=Mean())
        case "map":
            return replace(config, special=(), pool=Attend())
    return config


def _hybrid(name: str, word: dict[str, str]) -> ViTConfig:
    """Here the number after the slash is the ResNet's total downsampling: 32 with all four stages; 16 with three,
    the fourth's units moved into the third. R alone is the root with patches of 8, named /16 but in truth a /32."""
    depth, downsampling = word["resnet"], word["patch"]
    sizes, image = _size(name, word["size"])._asdict(), size(word["image"] or "224")
    if not depth and downsampling == "16":
        return ViTConfig(**sizes, image=image, stem=ResNetStem(units=()), patch=(8, 8))
    if not depth or int(depth) not in UNITS or downsampling not in ("16", "32"):
        raise UsageError(
            f"{name!r} is no hybrid: the stem is R with /16, or R and a depth of "
            f"{', '.join(map(str, UNITS))} with /16 or /32; {nearest(name, NAMES)}"
        )
    first, second, third, fourth = UNITS[int(depth)]
    units = (first, second, third, fourth) if downsampling == "32" else (first, second, third + fourth)
    return ViTConfig(**sizes, image=image, stem=ResNetStem(units=units), patch=(1, 1))


def _resnet(name: str, word: dict[str, str]) -> ResNetConfig:
    depth, factor = int(word["depth"]), int(word["factor"])
    if depth not in UNITS or factor < 1:
        raise UsageError(
            f"{name!r} is no model's name: depths are {', '.join(map(str, UNITS))}; {nearest(name, NAMES)}"
        )
    config = ResNetConfig(units=UNITS[depth], width=64 * factor, form=PRE if word["bit"] else POST)
    return replace(config, image=size(word["size_of_image"])) if word["size_of_image"] else config
