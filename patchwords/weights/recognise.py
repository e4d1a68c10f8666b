"""Which format a file has, found by its keys, and which one can hold a model."""

from collections.abc import Mapping

from torch import Tensor

from patchwords.errors import ModelError, UsageError
from patchwords.models.names import Config
from patchwords.models.resnet import ResNetConfig
from patchwords.models.swin import SwinConfig
from patchwords.models.tokenizer import TokenizerConfig
from patchwords.settings import nearest
from patchwords.weights.format import Format
from patchwords.weights.formats import FORMATS, NAMES
from patchwords.weights.rules import State, listed, parse

PREFIXES = ("opt/target/", "params/img/", "params/")  # training checkpoints, an image tower, big_vision
SCANNED = "Transformer/encoderblock/"


def family(config: Config) -> str:
    """vit, autoencoder (the bare encoder of one), deit (with a distillation token), distilled (with both classifiers),
    beit, hybrid-root (a stem without stages), resnet-pre, resnet-post, swin or tokenizer."""
    if isinstance(config, ResNetConfig):
        return f"resnet-{config.form.activation}"
    if isinstance(config, TokenizerConfig | SwinConfig):
        return config.kind
    if config.stem and not config.stem.units:
        return "hybrid-root"
    if config.biases == "qv" or config.position.kind == "relative-bias":
        return "beit"
    if "distillation" in config.special:
        return "distilled" if config.pool.kind == "distilled" else "deit"
    return "autoencoder" if config.position.kind == "fixed-1d" and not config.classes else "vit"


def choose(name: str, config: Config) -> Format:
    """The format of that name that can hold such a model."""
    if name not in NAMES:
        raise UsageError(f"'{name}' is no format; {nearest(name, NAMES)}")
    for format in FORMATS:
        if format.name == name and family(config) in format.families:
            return format
    raise ModelError(f"the {name} format has no names for such a model ({family(config)}): native holds everything")


def recognise(tensors: Mapping[str, Tensor], said: str = "") -> Format:
    """The one format whose keys are here; none or several is an error that says what was seen.

    Two models of transformers may have the same names: there the `said` model_type of config.json decides.
    """
    told = [format for format in FORMATS if said and format.said == said]
    found = [format for format in told if _has(format, format.signs + format.bare, tensors)]
    found = found or [format for format in FORMATS if _has(format, format.signs, tensors)]
    if len(found) == 1:
        return found[0]
    seen = f"{len(tensors)} tensors: {listed(tensors)}"
    if found:
        raise ModelError(f"the keys fit {' and '.join(format.name for format in found)} alike. The file holds {seen}")
    raise ModelError(
        f"no known format ({', '.join(NAMES)}) has such keys. The file holds {seen}: give one of a model that "
        "docs/formats.md names"
    )


def _has(format: Format, signs: tuple[str, ...], tensors: Mapping[str, Tensor]) -> bool:
    is_here = any(parse(sign, key) is not None for sign in signs for key in tensors)
    return is_here and not any(name in tensors for name in format.without)


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
