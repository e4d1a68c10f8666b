"""Names as the paper writes them, "R50+ViT-B/16@384", read into configurations."""

import re
from collections.abc import Callable
from dataclasses import replace

from patchwords.errors import UsageError
from patchwords.layers.bottleneck import POST, PRE
from patchwords.layers.pool import Attend, Mean
from patchwords.layers.position import Learned1D
from patchwords.models.beit import beit
from patchwords.models.deit import deit, deit3, distilled
from patchwords.models.hybrid import ResNetStem
from patchwords.models.mae import mae
from patchwords.models.resnet import UNITS, ResNetConfig
from patchwords.models.sizes import DIGITS, LITE, SIZES, Size
from patchwords.models.swin import SIZES as SWINS
from patchwords.models.swin import SwinConfig
from patchwords.models.tokenizer import TokenizerConfig, dalle, tokenizer
from patchwords.models.vit import ViTConfig
from patchwords.settings import nearest, shown, size

Config = ViTConfig | ResNetConfig | SwinConfig | TokenizerConfig
Words = dict[str, str]  # the parts of a name, by the names of the groups in FAMILIES

LATER = {"DeiT": deit, "DeiT3": deit3, "BEiT": beit, "MAE": mae}  # the same sizes in later papers

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
    *(f"DeiT-{letter}/16{tail}" for tail in ("", "-distilled") for letter in ("Ti", "S", "B")),
    *("DeiT3-S/16", "DeiT3-M/16", "DeiT3-B/16", "DeiT3-L/16", "DeiT3-H/14"),
    *("BEiT-B/16", "BEiT-L/16"),
    *("MAE-B/16", "MAE-L/16", "MAE-H/14"),
    *("Swin-T", "Swin-S", "Swin-B", "Swin-L", "Swin-B@384", "Swin-L@384"),
    *(f"BiT-{name}" for name in ("R50x1", "R50x2", "R101x1", "R152x1", "R152x2", "R152x4", "R200x3")),
    *("R50x1", "R50x2", "R101x1", "R152x1", "R152x2", "R152x4", "R200x3"),
    *("Tokenizer-512/4", "Tokenizer-8192/8", "DALL-E"),
)


def read(name: str, asked: str = "") -> Config:
    """The configuration that a name stands for; a wrong name is answered with the nearest ones.

    `asked` is a size that is wanted beside the name: patches need not fit the one that such models are made for.
    """
    for grammar, family in FAMILIES:
        if isinstance(name, str) and (match := re.fullmatch(grammar + IMAGE, name, re.ASCII)):
            return family(name, match.groupdict() | {"asked": asked})
    raise UsageError(f"{shown(name)} is no model's name; {nearest(str(name), NAMES)}")


def fits(name: str) -> bool:
    """Whether a word is written as the names of models are; whether there is such a size, `read` says."""
    return any(re.fullmatch(grammar + IMAGE, name, re.ASCII) for grammar, _ in FAMILIES)


def _vit(name: str, word: Words) -> ViTConfig:
    config = _pooled(_hybrid(name, word) if word["resnet"] is not None else _plain(name, word), word)
    if word["axial"]:
        config = replace(config, special=(), encoder="axial", pool=config.pool if word["pool"] else Mean())
    return config


def _plain(name: str, word: Words) -> ViTConfig:
    letter, patch = word["size"], size(word["patch"])
    if letter == "Digits":
        return ViTConfig(**DIGITS._asdict(), patch=patch, image=_image(word, "8"), channels=1, classes=10)
    if letter in (f"Lite-{depth}" for depth in LITE):
        return ViTConfig(
            **LITE[int(letter.removeprefix("Lite-"))]._asdict(),
            patch=patch,
            image=_image(word, "32"),
            classes=10,
            block="stream-norm",
            biases="none",
            activation="gelu",
            epsilon=1e-5,
            position=Learned1D(std=0.2),
        )
    return ViTConfig(**_size(name, letter)._asdict(), patch=patch, image=_image(word, "224"))


def _image(word: Words, usual: str) -> tuple[int, int]:
    """What was asked for beside the name, else what stands in it, else what such models are made for."""
    return size(word["asked"] or word["image"] or usual)


def _size(name: str, letter: str) -> Size:
    if letter not in SIZES:
        raise UsageError(f"{name!r} is no model's name: there is no size {letter!r}; {nearest(name, NAMES)}")
    return SIZES[letter]


def _pooled(config: ViTConfig, word: Words) -> ViTConfig:
    """-gap and -map: pools that need no class token."""
    match word["pool"]:
        case "gap":
            return replace(config, special=(), pool=Mean())
        case "map":
            return replace(config, special=(), pool=Attend())
    return config


def _hybrid(name: str, word: Words) -> ViTConfig:
    """Here the number after the slash is the ResNet's total downsampling: 32 with all four stages; 16 with three,
    the fourth's units moved into the third. R alone is the root with patches of 8, named /16 but in truth a /32."""
    depth, downsampling = word["resnet"], word["patch"]
    sizes, image = _size(name, word["size"])._asdict(), _image(word, "224")
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


def _later(name: str, word: Words) -> ViTConfig:
    config = LATER[word["paper"]](_size(name, word["size"]), size(word["patch"]), _image(word, "224"))
    if not word["distilled"]:
        return config
    if word["paper"] != "DeiT":
        raise UsageError(f"{name!r} is no model's name: only DeiT is distilled; {nearest(name, NAMES)}")
    return distilled(config)


def _tokenizer(name: str, word: Words) -> TokenizerConfig:
    """Tokenizer-V/S has V code words and a place of them every S pixels."""
    stride = int(word["stride"])
    if stride < 1 or stride & (stride - 1):
        raise UsageError(f"{name!r} is no model's name: a tokenizer's stride is 1, 2, 4 …; {nearest(name, NAMES)}")
    return tokenizer(int(word["vocabulary"]), stride, size(word["image"] or "112"))


def _dalle(name: str, word: Words) -> TokenizerConfig:
    """The published tokenizer's shape."""
    return dalle(size(word["image"] or "256"))


def _swin(name: str, word: Words) -> SwinConfig:
    """At 384 pixels the windows are of 12 by 12, so that they divide every map there too."""
    if word["size"] not in SWINS:
        raise UsageError(f"{name!r} is no model's name: there is no size {word['size']!r}; {nearest(name, NAMES)}")
    image = size(word["image"] or "224")
    window = (12, 12) if image == (384, 384) else (7, 7)
    return SwinConfig(**SWINS[word["size"]]._asdict(), image=image, window=window)


def _resnet(name: str, word: Words) -> ResNetConfig:
    depth, factor = int(word["depth"]), int(word["factor"])
    if depth not in UNITS or factor < 1:
        raise UsageError(
            f"{name!r} is no model's name: depths are {', '.join(map(str, UNITS))}; {nearest(name, NAMES)}"
        )
    config = ResNetConfig(units=UNITS[depth], width=64 * factor, form=PRE if word["bit"] else POST)
    return replace(config, image=size(word["image"])) if word["image"] else config


IMAGE = r"(@(?P<image>\d+(x\d+)?))?"  # at the end of every name
FAMILIES: tuple[tuple[str, Callable[[str, Words], Config]], ...] = (
    (r"(?P<axial>Axial-)?(R(?P<resnet>\d*)\+)?ViT-(?P<size>[\w-]+?)/(?P<patch>\d+)(-(?P<pool>gap|map))?", _vit),
    (r"(?P<paper>DeiT3?|BEiT|MAE)-(?P<size>[\w-]+?)/(?P<patch>\d+)(?P<distilled>-distilled)?", _later),
    (r"Swin-(?P<size>\w+)", _swin),
    (r"(?P<bit>BiT-)?R(?P<depth>\d+)x(?P<factor>\d+)", _resnet),
    (r"Tokenizer-(?P<vocabulary>\d+)/(?P<stride>\d+)", _tokenizer),
    (r"DALL-E", _dalle),
)
