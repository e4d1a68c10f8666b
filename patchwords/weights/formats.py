"""The formats people hold: which keys betray one, whose rules name its tensors, and how its library computes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from torch import Tensor

from patchwords.data.preprocess import IMAGENET, Preprocess
from patchwords.errors import ModelError, UsageError
from patchwords.layers.bottleneck import POST, PRE, Form
from patchwords.layers.conv import Standardise
from patchwords.layers.position import Learned1D, Position, SinCos2D, rows_before_patches
from patchwords.models.names import Config
from patchwords.models.resnet import ResNetConfig
from patchwords.models.vit import ViTConfig
from patchwords.settings import nearest
from patchwords.weights.maps import huggingface, official, timm, torchvision
from patchwords.weights.rules import Rule, State, listed, parse

# The small numbers of timm and transformers where they rewrote BiT and the hybrids.
TIMM_PRE = replace(PRE, standardise=Standardise(to="variance", epsilon=1e-8))
TIMM_POST = replace(POST, epsilon=1e-5, standardise=Standardise(to="variance", epsilon=1e-8))

PREFIXES = ("opt/target/", "params/img/", "params/")  # training checkpoints, an image tower, big_vision
SCANNED = "Transformer/encoderblock/"


@dataclass(frozen=True, kw_only=True)
class Format:
    """One layout of one family of models; `families` are of `family(config)`."""

    name: str
    families: tuple[str, ...]
    rules: Callable[[int], list[Rule]]
    signs: tuple[str, ...]  # any of these keys is enough
    without: str = ""  # but not with this one
    ignore: tuple[str, ...] = ()
    tableless: Position | None = None  # what no position table means; nothing: it is missing
    heads: str = ""  # the tensor whose second axis is the heads
    computes: dict[str, Any] = field(default_factory=dict)  # the fields of a configuration that the library decides
    forms: dict[str, Form] = field(default_factory=lambda: {"pre": PRE, "post": POST})
    attends: Literal["tokens", "patches"] = "tokens"  # what an attention pool asks where there are special tokens
    preprocess: Preprocess | None = None  # where all published files agree on it
    refuses: Callable[[Config], str] = lambda config: ""  # what the names could hold but the library would not compute
    prefix: str = ""
    suffixes: tuple[str, ...] = (".safetensors", ".pth", ".pt", ".bin")


ERF = {"activation": "gelu", "epsilon": 1e-6}
TANH = {"activation": "gelu-tanh", "epsilon": 1e-6}
ATTENTION = "Transformer/encoderblock_{i}/MultiHeadDotProductAttention_"


def beyond_class_token(config: Config) -> str:
    """transformers and torchvision know the class token and a row for each token, nothing else."""
    if not isinstance(config, ViTConfig):
        return ""
    plain = config.special == ("class",) and config.pool.kind == "class" and config.encoder == "global"
    rows = isinstance(config.position, Learned1D) and rows_before_patches(config.position.over, config.special) == 1
    return "" if plain and rows else "anything but a class token, its pool and a position for every token"


def beyond_flax(config: Config) -> str:
    """The official code and big_vision have biases on q, k and v always."""
    return "attention without biases" if getattr(config, "biases", "qkv") == "none" else ""


def beyond_torchvision(config: Config) -> str:
    """There a picture and its patches are square, too."""
    if isinstance(config, ViTConfig) and (len(set(config.image)) > 1 or len(set(config.patch)) > 1):
        return "pictures or patches that are not square"
    return beyond_flax(config) or beyond_class_token(config)


def beyond_transformers(config: Config) -> str:
    """There a hidden layer belongs to the bare ViTModel (its pooler), never to a classifier."""
    if config.head.kind == "mlp" and config.classes:
        return "a hidden layer before the classifier"
    return beyond_class_token(config)


FORMATS = (
    Format(
        name="official",
        families=("vit", "hybrid-root"),
        rules=official.official,
        signs=(f"{ATTENTION}1/query/kernel",),
        heads=f"{ATTENTION}1/query/kernel",
        computes=TANH,
        preprocess=Preprocess(),
        refuses=beyond_flax,
        suffixes=(".npz",),
    ),
    Format(
        name="big_vision",
        families=("vit", "hybrid-root"),
        rules=official.big_vision,
        signs=(f"{ATTENTION}0/query/kernel",),
        heads=f"{ATTENTION}0/query/kernel",
        computes=TANH,
        preprocess=Preprocess(),
        refuses=beyond_flax,
        tableless=SinCos2D(),
        prefix="params/",
        suffixes=(".npz",),
    ),
    Format(
        name="official",
        families=("resnet-post",),
        rules=official.official_resnet,
        signs=("conv_root/kernel",),
        without="embedding/kernel",
        preprocess=Preprocess(),
        suffixes=(".npz",),
    ),
    Format(
        name="official",
        families=("resnet-pre",),
        rules=official.bit,
        signs=("resnet/group_norm/gamma",),
        preprocess=Preprocess(),
        suffixes=(".npz",),
    ),
    Format(
        name="timm",
        families=("vit",),
        rules=timm.vit,
        signs=("blocks.{i}.attn.qkv.weight",),
        without="patch_embed.backbone.conv.weight",
        ignore=timm.IGNORE,
        computes=ERF,
        forms={"post": TIMM_POST},
        attends="patches",
    ),
    Format(
        name="timm",
        families=("hybrid-root",),
        rules=timm.hybrid_root,
        signs=("patch_embed.backbone.conv.weight",),
        computes=ERF,
        forms={"post": TIMM_POST},
        attends="patches",
    ),
    Format(
        name="timm",
        families=("resnet-pre", "resnet-post"),
        rules=timm.resnetv2,
        signs=("stages.{b}.blocks.{u}.conv3.weight",),
        forms={"pre": TIMM_PRE, "post": TIMM_POST},
    ),
    Format(
        name="huggingface",
        families=("vit",),
        rules=huggingface.vit,
        signs=tuple(f"{prefix}embeddings.patch_embeddings.projection.weight" for prefix in ("vit.", "")),
        computes={"activation": "gelu", "epsilon": 1e-12},
        refuses=beyond_transformers,
        suffixes=("", ".safetensors", ".bin"),
    ),
    Format(
        name="huggingface",
        families=("resnet-pre",),
        rules=huggingface.bit,
        signs=("bit.embedder.convolution.weight",),
        forms={"pre": TIMM_PRE},
        suffixes=("", ".safetensors", ".bin"),
    ),
    Format(
        name="torchvision",
        families=("vit",),
        rules=torchvision.vit,
        signs=("encoder.layers.encoder_layer_{i}.self_attention.in_proj_weight",),
        computes=ERF,
        preprocess=IMAGENET,
        refuses=beyond_torchvision,
    ),
)

NAMES = ("native", *dict.fromkeys(format.name for format in FORMATS))


def family(config: Config) -> str:
    """vit, hybrid-root (a stem without stages), resnet-pre or resnet-post."""
    if isinstance(config, ResNetConfig):
        return f"resnet-{config.form.activation}"
    return "hybrid-root" if config.stem and not config.stem.units else "vit"


def choose(name: str, config: Config) -> Format:
    """The format of that name that can hold such a model."""
    if name not in NAMES:
        raise UsageError(f"'{name}' is no format; {nearest(name, NAMES)}")
    for format in FORMATS:
        if format.name == name and family(config) in format.families:
            return format
    raise ModelError(f"the {name} format has no names for such a model ({family(config)}): native holds everything")


def recognise(tensors: Mapping[str, Tensor]) -> Format:
    """The one format whose keys are here; none or several is an error that says what was seen."""
    found = [
        format
        for format in FORMATS
        if any(parse(sign, key) is not None for sign in format.signs for key in tensors)
        and format.without not in tensors
    ]
    if len(found) == 1:
        return found[0]
    seen = f"{len(tensors)} tensors: {listed(tensors)}"
    if found:
        raise ModelError(f"the keys fit {' and '.join(format.name for format in found)} alike. The file holds {seen}")
    raise ModelError(f"no known format ({', '.join(NAMES)}) has such keys. The file holds {seen}")


def unwrap(tensors: State) -> tuple[State, list[str]]:
    """Flax's outer layers taken off, the prefixes of training checkpoints and blocks scanned into one stack;
    and the names of what stands beside the weights."""
    inner, beside = dict(tensors), []
    for prefix in PREFIXES:
        if any(key.startswith(prefix) for key in tensors):
            inner = {key.removeprefix(prefix): x for key, x in tensors.items() if key.startswith(prefix)}
            beside = [key for key in tensors if not key.startswith(prefix)]
            break
    for key in [key for key in inner if key.startswith(SCANNED)]:
        stack, leaf = inner.pop(key), key.removeprefix(SCANNED)
        if stack.dim() == 0:
            raise ModelError(f"{key} is a scalar, where blocks are stacked")
        inner |= {f"Transformer/encoderblock_{i}/{leaf}": layer for i, layer in enumerate(stack)}
    return inner, beside
